//! Attention of twelve heads, with as many queries as keys, and of one query.

use picoformer_benches::row::{Plan, Reference, Row, Work};
use picoformer_benches::{Buffer, plain, some};
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::{Cpu, Line};
use std::rc::Rc;

pub(crate) fn rows() -> Vec<Plan> {
    let mut plans = Vec::new();
    for head_size in [32, 64] {
        for mask in [Mask::None, Mask::Causal] {
            plans.extend([16, 32, 64, 128, 256, 512].map(|keys| plan(head_size, keys, keys, mask)));
        }
        plans.push(plan(head_size, 1, 128, Mask::None));
    }
    plans
}

fn plan(head_size: usize, queries: usize, keys: usize, mask: Mask<'static>) -> Plan {
    let heads = Heads { heads: 12, head_size };
    // Two products, of the pairs that are seen.
    let pairs: usize = (0..queries).map(|i| visible(mask, i, keys)).sum();
    let work = Work::Flops((4 * heads.heads * head_size * pairs) as u64);
    let tag = if mask == Mask::None { "" } else { "_causal" };
    let what = format!("attention_12x{head_size}_{queries}x{keys}{tag}");
    Plan::new(what, work, Reference::Peak, move |row| fill(row, heads, queries, keys, mask))
}

/// Keys that query `i` sees; causal ones are as many as the queries.
fn visible(mask: Mask<'_>, i: usize, keys: usize) -> usize {
    if mask == Mask::None { keys } else { i + 1 }
}

fn fill(row: &mut Row, heads: Heads, queries: usize, keys: usize, mask: Mask<'static>) {
    let (width, size) = (heads.width(), heads.head_size);
    let query = Rc::new(Buffer::random(1, queries * width));
    let (key, value) = (Buffer::random(2, keys * width), Buffer::random(3, keys * width));
    let mut packed = (vec![Line::ZERO; heads.key_lines(keys)], vec![Line::ZERO; heads.value_lines(keys)]);
    append_keys_values(heads, keys, 0, &key, &value, width, keys, &mut packed.0, &mut packed.1);
    let packed = Rc::new(packed);

    let mut expected = Vec::new();
    for (i, head) in some(queries).flat_map(|i| [0, 5, 11].map(|head| (i, head))) {
        let at = head * size;
        let q = &query[i * width + at..][..size];
        let sums = plain::attention(q, &key[at..], &value[at..], width, visible(mask, i, keys));
        expected.extend(sums.into_iter().enumerate().map(|(j, sum)| (i * width + at + j, sum)));
    }
    row.writes(queries * width);
    row.expect(expected, 1e-5);
    for cpu in Cpu::all() {
        let (query, packed) = (query.clone(), packed.clone());
        let mut scores = vec![Line::ZERO; score_lines(keys)];
        row.ours(cpu, move |out| {
            let shape =
                AttentionShape { heads, queries, query_stride: width, keys, capacity: keys, first: 0, mask };
            cpu.attention(&shape, &query, &packed.0, &packed.1, &mut scores, out, None).unwrap();
        });
    }
}
