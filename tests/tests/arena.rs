//! One exact memory number before anything runs.

use picoformer_core::config::{Element, Elements, NormKind, NormPlace, Output, Pooling, Positions, Stack};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::{Capacity, Config, Cpu, Error, Line, Model, Plan};
use picoformer_tests::small;
use proptest::prelude::*;

prop_compose! {
    fn configs()(
        (stack, heads, head_size, d_ff, encoder_layers, decoder_layers) in (0..3u32, 1..4u32, 1..20u32, 1..40u32, 1..3u32, 1..3u32),
        (vocab, context, position, offset, norm, place) in (3..30u32, 1..12u32, 0..4u32, 0..3u32, 0..2u32, 0..2u32),
        flags in prop::array::uniform6(any::<bool>()),
        (activation, output, pooling, elements) in (0..4u32, 0..3u32, 0..3u32, prop::array::uniform4(0..5usize)),
    ) -> Config {
        let stack = [Stack::Encoder, Stack::Decoder, Stack::EncoderDecoder][stack as usize];
        let positions = [Positions::None, Positions::SinusoidalInterleaved, Positions::SinusoidalHalves, Positions::Learned][position as usize];
        let decodes = stack != Stack::Encoder;
        let [shared, scaled, final_norm, embedding_norm, attention_bias, output_bias] = flags;
        Config {
            stack,
            d_model: heads * head_size,
            heads,
            d_ff,
            encoder_layers,
            decoder_layers,
            source_vocab: vocab,
            target_vocab: vocab,
            source_context: context,
            target_context: context + 2,
            shared_embedding: shared && stack == Stack::EncoderDecoder,
            scaled_embedding: scaled,
            positions,
            position_offset: if positions == Positions::Learned { offset } else { 0 },
            norm: [NormKind::Layer, NormKind::Rms][norm as usize],
            norm_place: [NormPlace::Post, NormPlace::Pre][place as usize],
            norm_eps: 1e-5,
            final_norm,
            embedding_norm,
            activation: [Activation::Relu, Activation::GeluErf, Activation::GeluTanh, Activation::Silu][activation as usize],
            attention_bias,
            feed_forward_bias: attention_bias != shared,
            output: if decodes { [Output::Separate, Output::Tied, Output::Separate][output as usize] } else { Output::None },
            output_bias,
            pooling: [Pooling::None, Pooling::Mean, Pooling::First][pooling as usize],
            unit_length: scaled,
            begin: 1,
            end: 2,
            elements: {
                let [tokens, attention, feed_forward, output] = elements.map(|e| [Element::F32, Element::Int8, Element::Int8By64, Element::F16, Element::Bf16][e]);
                Elements { tokens, attention, feed_forward, output }
            },
        }
    }
}

const GUARD: Line = Line([1234.5; 16]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_exact_arena_suffices_one_line_less_is_refused_and_nothing_outside_is_touched(
        config in configs(), batch in 1..4usize, source in 1..12usize, target in 1..12usize, chunk in 1..5usize,
    ) {
        let plan = Plan::new(config).unwrap().with_capacity(Capacity { batch, source, target, chunk }).unwrap();
        let blob = small::weights(&plan, 7);
        let model = Model::new(plan, &blob).unwrap();
        let need = plan.arena();
        for cpu in Cpu::all() {
            let mut lines = vec![Line([f32::NAN; 16]); need + 8];
            lines[..4].fill(GUARD);
            lines[need + 4..].fill(GUARD);
            let refused = model.session(&mut lines[4..need + 3], cpu).map(|_| ());
            prop_assert_eq!(refused, Err(Error::Arena { need }));
            let mut session = model.session(&mut lines[4..need + 4], cpu).unwrap();
            let (source, target) = (plan.capacity().source, plan.capacity().target);
            if config.has_encoder() {
                let tokens: Vec<Vec<u32>> = (0..batch).map(|b| (0..source as u32).map(|i| (i + b as u32) % config.source_vocab).collect()).collect();
                let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
                session.encode(&tokens).unwrap();
                for b in 0..batch {
                    prop_assert!(session.encoded(b).unwrap().iter().all(|x| x.is_finite()));
                    let mut vector = vec![0.0; config.d_model as usize];
                    session.embedding(b, &mut vector).unwrap();
                    prop_assert!(vector.iter().all(|x| x.is_finite()));
                }
            }
            if config.has_decoder() {
                let prompt: Vec<u32> = (0..target as u32).map(|i| i % config.target_vocab).collect();
                let prompts = vec![&prompt[..]; batch];
                prop_assert!(session.decode(&prompts).unwrap().iter().all(|x| x.is_finite()));
                prop_assert_eq!(session.decode(&vec![&prompt[..1]; batch]).map(|_| ()), Err(Error::Full { capacity: target }));
                session.restart(batch).unwrap();
                session.generate(target, |_, _| {}).unwrap();
            }
            prop_assert!(lines[..4].iter().chain(&lines[need + 4..]).all(|line| *line == GUARD));
        }
    }

    #[test]
    fn the_arenas_map_has_no_overlap_within_a_group_and_ends_where_the_arena_does(
        config in configs(), batch in 1..4usize, source in 1..12usize, target in 1..12usize,
    ) {
        let plan = Plan::new(config).unwrap().with_capacity(Capacity { batch, source, target, chunk: 2 }).unwrap();
        let map = plan.map();
        let session_end = map.iter().filter(|r| r.group == "session").map(|r| r.offset + r.lines).max().unwrap();
        for group in ["session", "attention", "feed_forward", "output"] {
            let mut end = if group == "session" { 0 } else { session_end };
            for region in map.iter().filter(|r| r.group == group) {
                prop_assert_eq!(region.offset, end, "{} follows what is before it", region.name);
                end += region.lines;
            }
            prop_assert!(end <= plan.arena());
        }
        prop_assert_eq!(map.iter().map(|r| r.offset + r.lines).max().unwrap(), plan.arena());
    }

    #[test]
    fn no_configuration_panics(words in prop::array::uniform29(prop_oneof![0..4u32, any::<u32>()])) {
        if let Some(config) = Config::from_words(&words) {
            prop_assert_eq!(config.to_words().map(|w| w), words);
            if let Ok(plan) = Plan::new(config) {
                let _ = plan.with_capacity(Capacity { batch: words[0] as usize, source: words[1] as usize, target: words[2] as usize, chunk: words[3] as usize });
                let _ = plan.multiply_adds();
                let _ = plan.map();
            }
        }
    }
}

#[test]
fn every_wrong_number_is_refused_by_name() {
    let refused = |config: Config, word: &str| match Plan::new(config) {
        Err(Error::Config(why)) => assert!(why.contains(word), "{why:?} should name {word:?}"),
        other => panic!("{word}: {other:?}"),
    };
    let paper = small::PAPER;
    refused(Config { d_model: 0, ..paper }, "d_model");
    refused(Config { heads: 5, ..paper }, "heads");
    refused(Config { heads: 0, ..paper }, "heads");
    refused(Config { d_ff: 0, ..paper }, "d_ff");
    refused(Config { encoder_layers: 0, ..paper }, "encoder_layers");
    refused(Config { target_vocab: 0, ..paper }, "target_vocab");
    refused(Config { source_context: u32::MAX, ..paper }, "source_context");
    refused(Config { norm_eps: f32::NAN, ..paper }, "norm_eps");
    refused(Config { activation: Activation::Exp, ..paper }, "activation");
    refused(Config { shared_embedding: true, ..paper }, "shared");
    refused(Config { end: 37, ..paper }, "end");
    refused(Config { stack: Stack::Encoder, ..paper }, "output");
    refused(
        Config { d_model: 1 << 24, heads: 1, d_ff: 1 << 24, encoder_layers: 1 << 24, ..paper },
        "address space",
    );
}

#[test]
fn weights_of_another_length_are_refused_with_the_right_one() {
    let plan = Plan::new(small::PAPER).unwrap();
    let need = plan.weights();
    for length in [0, need - 1, need + 1] {
        let lines = vec![Line::ZERO; length];
        assert_eq!(Model::new(plan, &lines).map(|_| ()), Err(Error::Weights { need }));
    }
}

#[test]
fn wrong_input_changes_nothing() {
    for (name, config) in small::families() {
        let plan = Plan::new(config)
            .unwrap()
            .with_capacity(Capacity { batch: 2, source: 5, target: 6, chunk: 2 })
            .unwrap();
        let blob = small::weights(&plan, 3);
        let model = Model::new(plan, &blob).unwrap();
        let mut arena = vec![Line::ZERO; plan.arena()];
        let mut session = model.session(&mut arena, Cpu::detect()).unwrap();
        if config.has_encoder() {
            session.encode(&[&[3, 4, 5], &[6]]).unwrap();
            let before = session.encoded(0).unwrap().to_vec();
            let token = config.source_vocab;
            assert_eq!(session.encode(&[&[1], &[token]]), Err(Error::Token { token, vocab: token }));
            assert_eq!(session.encode(&[&[1; 6]]), Err(Error::Full { capacity: 5 }));
            assert_eq!(session.encode(&[&[1], &[1], &[1]]), Err(Error::Batch { need: 2 }));
            assert_eq!(session.encode_padded(&[1, 2, 3], 3, &[4]), Err(Error::Shape { need: 3 }));
            assert_eq!(session.encoded(0).unwrap(), before, "{name}");
            assert_eq!(session.encoded(2).map(|_| ()), Err(Error::Batch { need: 2 }));
        } else {
            assert_eq!(session.encode(&[&[1]]), Err(Error::Missing("encoder")));
        }
        if config.has_decoder() {
            let first = session.decode(&[&[1], &[2, 3]]).unwrap().to_vec();
            let token = config.target_vocab;
            assert_eq!(
                session.decode(&[&[1], &[token]]).map(|_| ()),
                Err(Error::Token { token, vocab: token })
            );
            assert_eq!(session.decode(&[&[1]]).map(|_| ()), Err(Error::Batch { need: 2 }));
            assert_eq!(session.decode(&[&[1], &[1; 5]]).map(|_| ()), Err(Error::Full { capacity: 6 }));
            assert_eq!(
                session.decode(&[&[], &[]]).unwrap(),
                first,
                "{name}: nothing new gives the same scores"
            );
        } else {
            assert_eq!(session.decode(&[&[1]]).map(|_| ()), Err(Error::Missing("output projection")));
            assert_eq!(session.generate(3, |_, _| {}), Err(Error::Missing("output projection")));
        }
    }
}
