//! Numbers that make no sense give an error or do nothing: never a panic, never a hang.

use picoformer_core::arena::Workspace;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values};
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::nn::{KeyValues, Run, Sequence, Site, Watch};
use picoformer_core::{Capacity, Cpu, Error, Line, Model, Plan, image};
use picoformer_tests::small;

const EXTREMES: [usize; 6] = [0, 1, 16, 17, usize::MAX / 2, usize::MAX];

#[test]
fn attention_refuses_shapes_that_overflow() {
    let (lines, floats) = ([Line::ZERO; 64], [0.0; 64]);
    for heads in EXTREMES {
        for head_size in EXTREMES {
            for capacity in EXTREMES {
                for queries in [0, 1, usize::MAX] {
                    let heads = Heads { heads, head_size };
                    let shape = AttentionShape {
                        heads,
                        queries,
                        query_stride: 16,
                        keys: capacity.min(3),
                        capacity,
                        first: usize::MAX,
                        mask: Mask::Causal,
                    };
                    let (mut scores, mut out) = ([Line::ZERO; 64], [0.0; 64]);
                    let _ =
                        Cpu::detect().attention(&shape, &floats, &lines, &lines, &mut scores, &mut out, None);
                    for (at, stride) in [(0, 16), (usize::MAX, 16), (2, usize::MAX), (usize::MAX - 3, 0)] {
                        let (mut keys, mut values) = (lines, lines);
                        append_keys_values(
                            heads,
                            capacity,
                            at,
                            &floats,
                            &floats,
                            stride,
                            4,
                            &mut keys,
                            &mut values,
                        );
                        let mut cache = KeyValues { heads, capacity, keys: &mut keys, values: &mut values };
                        cache.append(7, at, &floats, stride, 3);
                    }
                }
            }
        }
    }
}

#[test]
fn other_kernels_refuse_shapes_that_overflow() {
    let cpu = Cpu::detect();
    for n in EXTREMES {
        let (mut x, lines) = ([0.5; 34], [Line::ZERO; 4]);
        let _ = cpu.softmax(&mut x, n);
        let _ = cpu.layer_norm(&mut x, n, None, &lines, &[], 0.0);
        let _ = cpu.rms_norm(&mut x, n, Some(&[]), &lines, 0.0);
        let _ = cpu.nearest(&lines, n, n, &[1.0; 16]);
        let _ = cpu.embed(&lines, u32::MAX, n, 1.0, &mut x);
        let _ = cpu.embed_tied(&lines, u32::MAX, n, 1.0, &mut x);
        add_sinusoidal(Sinusoid::Halves, n, &mut x, n);
        for m in EXTREMES {
            let activation = picoformer_core::kernels::activation::Activation::Silu;
            let _ = cpu.matmul(&[0.0; 34], m, &lines, &lines, activation, &mut x, n);
        }
        let _ = image::header(&small::PAPER, "é".repeat(40).as_str(), n as u64, 1, n as u64);
    }
}

/// Gives less room for the weights than was asked for.
struct Stingy([f32; 1]);

impl Watch for Stingy {
    fn weights(&mut self, _: Site, _: usize, _: usize, _: usize) -> Option<&mut [f32]> {
        Some(&mut self.0)
    }
}

#[test]
fn a_watcher_with_too_little_room_gets_nothing_and_disturbs_nothing() {
    let plan = Plan::new(small::PAPER).unwrap();
    let blob = small::weights(&plan, 1);
    let mut arena = vec![Line::ZERO; plan.arena()];
    let mut session = Model::new(plan, &blob).unwrap().session(&mut arena, Cpu::detect()).unwrap();
    session.encode(&[&[3, 4]]).unwrap();
    let before = session.encoded(0).unwrap().to_vec();
    session.encode_watched(&[&[3, 4]], &mut Stingy([7.0])).unwrap();
    assert_eq!(session.encoded(0).unwrap(), before);
}

#[test]
fn modules_called_with_sequences_outside_their_rows_give_an_error_or_do_nothing() {
    let plan = Plan::new(small::PAPER).unwrap();
    let blob = small::weights(&plan, 1);
    let model = Model::new(plan, &blob).unwrap();
    let transformer = model.transformer();
    let mut lines = vec![Line::ZERO; Workspace::lines(&plan)];
    let mut watch = ();
    for n in [0, 1, 5, u32::MAX - 1, u32::MAX] {
        for wrong in 0..4 {
            let mut s = Sequence { row: 0, rows: 2, at: 0, keep: 2 };
            *[&mut s.row, &mut s.rows, &mut s.at, &mut s.keep][wrong] = n;
            let mut run = Run { workers: Cpu::detect().into(), plan: &plan, layer: 0, watch: &mut watch };
            let mut workspace = Workspace::new(&plan, &mut lines).unwrap();
            let mut x = [0.1; 64];
            let _ = transformer.encoder.forward(&mut run, &[s], &mut x, &mut workspace);
            let layer = transformer.decoder.layers(plan.config()).next().unwrap();
            let heads = plan.heads();
            let mut cache =
                [vec![Line::ZERO; 999], vec![Line::ZERO; 999], vec![Line::ZERO; 999], vec![Line::ZERO; 999]];
            let [a, b, c, d] = &mut cache;
            let mut own = KeyValues { heads, capacity: 9, keys: a, values: b };
            let mut theirs = KeyValues { heads, capacity: 9, keys: c, values: d };
            let buffers = workspace.attention().unwrap();
            let _ = layer.cross_attention.fill_cache(&run, &[s], &x, &mut theirs, buffers);
            let _ = layer.forward(&mut run, &[s], &[s], &mut x, &mut own, &mut theirs, &mut workspace);
            let buffers = workspace.attention().unwrap();
            let _ = layer.cross_attention.forward(
                &mut run,
                &[s],
                &[s],
                &mut x,
                &layer.norm2,
                &mut theirs,
                buffers,
            );
            let mut embedding = transformer.target_embedding();
            let _ = embedding.forward(&run, &[1], n as usize, &mut x);
            embedding.tokens.d_model = 0;
            let _ = embedding.forward(&run, &[1], usize::MAX, &mut x);
        }
    }
}

#[test]
fn a_full_target_gives_nothing_more_and_pieces_are_one_call() {
    let config = picoformer_core::Config { end: 36, ..small::PAPER };
    let plan = Plan::new(config)
        .unwrap()
        .with_capacity(Capacity { batch: 1, source: 4, target: 8, chunk: 8 })
        .unwrap();
    let blob = small::weights(&plan, 4);
    let mut arena = vec![Line::ZERO; plan.arena()];
    let mut session = Model::new(plan, &blob).unwrap().session(&mut arena, Cpu::detect()).unwrap();
    session.encode(&[&[3, 4]]).unwrap();
    let mut whole = Vec::new();
    session.generate(20, |_, token| whole.push(token)).unwrap();
    let mut after = Vec::new();
    session.generate(20, |_, token| after.push(token)).unwrap();
    assert!(after.is_empty(), "full or ended");
    session.restart(1).unwrap();
    let mut pieces = Vec::new();
    for _ in 0..20 {
        session.generate(1, |_, token| pieces.push(token)).unwrap();
    }
    assert_eq!(pieces, whole);
    assert_eq!(session.generate(0, |_, _| {}).map(|_| ()), Ok(()));
    assert_eq!(session.decode(&[&[1; 9]]).map(|_| ()), Err(Error::Full { capacity: 8 }));
}
