//! The paper's modules against PyTorch's results, on every backend: within 1e-5 of the
//! tensor's largest value.

use picoformer::convert::{self, Names};
use picoformer::source::Source;
use picoformer_core::arena::Workspace;
use picoformer_core::config::{Output, Positions, Stack};
use picoformer_core::kernels::attention::Mask;
use picoformer_core::nn::{KeyValues, Run, Sequence, Site, Watch};
use picoformer_core::{Capacity, Config, Cpu, Line, Model, Plan};
use picoformer_tests::assert_close;
use picoformer_tests::golden::Golden;

const MODULES: f32 = 1e-5;

/// The names of the Transformer cases' weights.
const LAYERS: &Names = &[
    ("source_tokens", &["w.embedding.weight"]),
    (
        "encoder.*.self_attention.query_key_value",
        &["w.encoder.*.self_attn.q.?", "w.encoder.*.self_attn.k.?", "w.encoder.*.self_attn.v.?"],
    ),
    ("encoder.*.self_attention.output", &["w.encoder.*.self_attn.o.?"]),
    ("encoder.*.norm1", &["w.encoder.*.norm1.?"]),
    ("encoder.*.feed_forward.up", &["w.encoder.*.ffn.linear1.?"]),
    ("encoder.*.feed_forward.down", &["w.encoder.*.ffn.linear2.?"]),
    ("encoder.*.norm2", &["w.encoder.*.norm2.?"]),
    (
        "decoder.*.self_attention.query_key_value",
        &["w.decoder.*.self_attn.q.?", "w.decoder.*.self_attn.k.?", "w.decoder.*.self_attn.v.?"],
    ),
    ("decoder.*.self_attention.output", &["w.decoder.*.self_attn.o.?"]),
    ("decoder.*.norm1", &["w.decoder.*.norm1.?"]),
    ("decoder.*.cross_attention.query", &["w.decoder.*.cross_attn.q.?"]),
    ("decoder.*.cross_attention.key_value", &["w.decoder.*.cross_attn.k.?", "w.decoder.*.cross_attn.v.?"]),
    ("decoder.*.cross_attention.output", &["w.decoder.*.cross_attn.o.?"]),
    ("decoder.*.norm2", &["w.decoder.*.norm2.?"]),
    ("decoder.*.feed_forward.up", &["w.decoder.*.ffn.linear1.?"]),
    ("decoder.*.feed_forward.down", &["w.decoder.*.ffn.linear2.?"]),
    ("decoder.*.norm3", &["w.decoder.*.norm3.?"]),
    ("output", &["w.fc_out.?"]),
];

/// Keeps the weights of the attentions it sees.
#[derive(Default)]
struct Weights(Vec<(Site, Vec<f32>)>);

impl Watch for Weights {
    fn weights(&mut self, site: Site, heads: usize, queries: usize, keys: usize) -> Option<&mut [f32]> {
        self.0.push((site, vec![0.0; heads * queries * keys]));
        self.0.last_mut().map(|(_, w)| &mut w[..])
    }
}

const LAYER: Config = Config {
    encoder_layers: 1,
    decoder_layers: 1,
    source_vocab: 1,
    target_vocab: 1,
    positions: Positions::None,
    begin: 0,
    end: 0,
    output: Output::None,
    ..Config::PAPER
};

#[test]
fn encoder_layers_are_pytorchs() {
    for (case, d_model, heads, d_ff, rows, bias) in
        [("encoder_layer_64_8_32", 64, 8, 32, 192, true), ("step5_encoder_block", 8, 2, 16, 4, false)]
    {
        let golden = Golden::open(case);
        let config = Config {
            stack: Stack::Encoder,
            d_model,
            heads,
            d_ff,
            source_context: rows,
            attention_bias: bias,
            decoder_layers: 0,
            target_vocab: 0,
            target_context: 0,
            output_bias: false,
            ..LAYER
        };
        let (x, shape) = golden.floats("in.x");
        let (expected, _) = golden.floats("out.y");
        let keep = golden.mask("in.pad_mask").map(|(mask, _)| mask);
        let (plan, blob) = layer_blob(&golden, config);
        let model = Model::new(plan, &blob).unwrap();
        for cpu in Cpu::all() {
            let mut lines = vec![Line([f32::NAN; 16]); Workspace::lines(&plan)];
            let mut workspace = Workspace::new(&plan, &mut lines).unwrap();
            let sequences: Vec<Sequence> = (0..shape[0] as u32)
                .map(|b| Sequence {
                    row: b * rows,
                    rows,
                    at: 0,
                    keep: keep.as_ref().map_or(rows, |k| {
                        k[(b * rows) as usize..((b + 1) * rows) as usize].iter().filter(|k| **k).count()
                            as u32
                    }),
                })
                .collect();
            let (mut y, mut watch) = (x.clone(), Weights::default());
            let mut run = Run { workers: cpu.into(), plan: &plan, layer: 0, watch: &mut watch };
            let layer = model.transformer().encoder.layers(plan.config()).next().unwrap();
            layer.forward(&mut run, &sequences, Mask::None, &mut y, &mut workspace).unwrap();
            assert_close(&format!("{case} on {}", cpu.name()), &y, &expected, MODULES);
            if case.starts_with("step5") {
                assert_close("weights", &watch.0[0].1, &golden.floats("out.weights").0, MODULES);
            }
        }
    }
}

/// A model of one layer. The tables that a layer alone has not are a norm's scale, and an
/// unused encoder beside a decoder layer has the decoder's weights.
fn layer_blob(golden: &Golden, config: Config) -> (Plan, Vec<Line>) {
    let whole = usize::MAX;
    let plan = Plan::new(config).unwrap();
    let plan = plan.with_capacity(Capacity { batch: 2, source: whole, target: whole, chunk: whole }).unwrap();
    const BARE: &Names = &[
        ("source_tokens", &["w.norm1.weight"]),
        ("target_tokens", &["w.norm1.weight"]),
        (
            "encoder.*.self_attention.query_key_value",
            &["w.self_attn.q.?", "w.self_attn.k.?", "w.self_attn.v.?"],
        ),
        ("encoder.*.self_attention.output", &["w.self_attn.o.?"]),
        ("encoder.*.norm1", &["w.norm1.?"]),
        ("encoder.*.feed_forward.up", &["w.ffn.linear1.?"]),
        ("encoder.*.feed_forward.down", &["w.ffn.linear2.?"]),
        ("encoder.*.norm2", &["w.norm2.?"]),
        (
            "decoder.*.self_attention.query_key_value",
            &["w.self_attn.q.?", "w.self_attn.k.?", "w.self_attn.v.?"],
        ),
        ("decoder.*.self_attention.output", &["w.self_attn.o.?"]),
        ("decoder.*.norm1", &["w.norm1.?"]),
        ("decoder.*.cross_attention.query", &["w.cross_attn.q.?"]),
        ("decoder.*.cross_attention.key_value", &["w.cross_attn.k.?", "w.cross_attn.v.?"]),
        ("decoder.*.cross_attention.output", &["w.cross_attn.o.?"]),
        ("decoder.*.norm2", &["w.norm2.?"]),
        ("decoder.*.feed_forward.up", &["w.ffn.linear1.?"]),
        ("decoder.*.feed_forward.down", &["w.ffn.linear2.?"]),
        ("decoder.*.norm3", &["w.norm3.?"]),
    ];
    let source = Source::open(&golden.path).unwrap();
    let blob = convert::weights(&plan, &source, BARE).unwrap();
    (plan, blob)
}

#[test]
fn decoder_layers_are_pytorchs() {
    for (case, d_model, heads, d_ff, rows, sources, bias) in
        [("decoder_layer_64_8_32", 64, 8, 32, 192, 150, true), ("step5_decoder_block", 8, 2, 16, 3, 4, false)]
    {
        let golden = Golden::open(case);
        let config =
            Config { stack: Stack::EncoderDecoder, d_model, heads, d_ff, attention_bias: bias, ..LAYER };
        let config = Config { source_context: sources, target_context: rows, output_bias: false, ..config };
        let ((x, shape), (memory, _)) = (golden.floats("in.x"), golden.floats("in.memory"));
        let (expected, _) = golden.floats("out.y");
        let (plan, blob) = layer_blob(&golden, config);
        let model = Model::new(plan, &blob).unwrap();
        let (batch, hd) = (shape[0] as u32, plan.heads());
        for cpu in Cpu::all() {
            let spans = |rows: u32| -> Vec<Sequence> {
                (0..batch).map(|b| Sequence { row: b * rows, rows, at: 0, keep: rows }).collect()
            };
            let mut lines = vec![Line([f32::NAN; 16]); Workspace::lines(&plan)];
            let mut workspace = Workspace::new(&plan, &mut lines).unwrap();
            let cache = |capacity: u32| {
                let capacity = capacity as usize;
                let keys = vec![Line([f32::NAN; 16]); batch as usize * hd.key_lines(capacity)];
                (keys, vec![Line([f32::NAN; 16]); batch as usize * hd.value_lines(capacity)])
            };
            let (mut own, mut theirs) = (cache(rows), cache(sources));
            let mut own =
                KeyValues { heads: hd, capacity: rows as usize, keys: &mut own.0, values: &mut own.1 };
            let mut theirs = KeyValues {
                heads: hd,
                capacity: sources as usize,
                keys: &mut theirs.0,
                values: &mut theirs.1,
            };
            let (mut y, mut watch) = (x.clone(), Weights::default());
            let mut run = Run { workers: cpu.into(), plan: &plan, layer: 0, watch: &mut watch };
            let layer = model.transformer().decoder.layers(plan.config()).next().unwrap();
            let buffers = workspace.attention().unwrap();
            layer.cross_attention.fill_cache(&run, &spans(sources), &memory, &mut theirs, buffers).unwrap();
            layer
                .forward(
                    &mut run,
                    &spans(rows),
                    &spans(sources),
                    &mut y,
                    &mut own,
                    &mut theirs,
                    &mut workspace,
                )
                .unwrap();
            assert_close(&format!("{case} on {}", cpu.name()), &y, &expected, MODULES);
            if case.starts_with("step5") {
                assert_close("self", &watch.0[0].1, &golden.floats("out.self_weights").0, MODULES);
                assert_close("cross", &watch.0[1].1, &golden.floats("out.cross_weights").0, MODULES);
            }
        }
    }
}

#[test]
fn the_whole_transformer_is_pytorchs_in_one_pass_and_token_by_token() {
    for (case, vocab, d_model, heads, encoder_layers, decoder_layers, d_ff) in
        [("transformer_small", 100, 32, 4, 2, 2, 64), ("transformer_odd", 53, 24, 3, 1, 3, 40)]
    {
        let golden = Golden::open(case);
        let ((src, src_shape), (trg, trg_shape)) = (golden.tokens("in.src"), golden.tokens("in.trg"));
        let ((memory, _), (logits, _)) = (golden.floats("out.memory"), golden.floats("out.logits"));
        let (batch, sources, targets) = (src_shape[0], src_shape[1], trg_shape[1]);
        let config = Config {
            d_model,
            heads,
            d_ff,
            encoder_layers,
            decoder_layers,
            source_vocab: vocab,
            target_vocab: vocab,
            source_context: sources as u32,
            target_context: targets as u32,
            shared_embedding: true,
            ..Config::PAPER
        };
        let capacity = Capacity { batch, source: sources, target: targets, chunk: 3 };
        let plan = Plan::new(config).unwrap().with_capacity(capacity).unwrap();
        let blob = convert::weights(&plan, &Source::open(&golden.path).unwrap(), LAYERS).unwrap();
        let model = Model::new(plan, &blob).unwrap();
        let kept = |tokens: &[u32]| tokens.iter().filter(|t| **t != 0).count();
        let lengths: Vec<usize> = src.chunks(sources).map(kept).collect();
        let target_lengths: Vec<usize> = trg.chunks(targets).map(kept).collect();
        let (d_model, vocab) = (d_model as usize, vocab as usize);
        for cpu in Cpu::all() {
            let mut arena = vec![Line([f32::NAN; 16]); plan.arena()];
            let mut session = model.session(&mut arena, cpu).unwrap();
            // Padded, as PyTorch ran it: the padding's rows agree too.
            session.encode_padded(&src, sources, &lengths).unwrap();
            let what = format!("{case} on {}", cpu.name());
            for b in 0..batch {
                let size = sources * d_model;
                assert_close(&what, session.encoded(b).unwrap(), &memory[b * size..][..size], MODULES);
            }
            let largest = logits.iter().fold(0f32, |m, x| m.max(x.abs()));
            let near = |b: usize, position: usize, found: &[f32]| {
                let expected = &logits[(b * targets + position) * vocab..][..vocab];
                for (x, y) in found.iter().zip(expected) {
                    assert!((x - y).abs() <= MODULES * largest, "{what}: {b}, {position}: {x} is not {y}");
                }
            };
            let prompts: Vec<&[u32]> =
                trg.chunks(targets).zip(&target_lengths).map(|(t, n)| &t[..*n]).collect();
            let mut seen = 0;
            session
                .decode_each(&prompts, |b, position, found| {
                    near(b, position, found);
                    seen += 1;
                })
                .unwrap();
            assert_eq!(seen, target_lengths.iter().sum::<usize>());
            session.restart(batch).unwrap();
            for position in 0..targets {
                let step: Vec<&[u32]> =
                    prompts.iter().map(|p| p.get(position..position + 1).unwrap_or(&[])).collect();
                let found = session.decode(&step).unwrap();
                for b in (0..batch).filter(|b| position < target_lengths[*b]) {
                    near(b, position, &found[b * vocab..][..vocab]);
                }
            }
        }
    }
}
