//! The image parser, and a session of whatever opens.

use picoformer_core::{Capacity, Cpu, Error, Image, Line, Model};

/// Lines of the largest arena that is tried: more would only be slower.
const ARENA: usize = 1 << 14;

/// The bytes where they are aligned, as [`Image::parse`] wants them.
pub(crate) fn aligned(bytes: &[u8], f: impl FnOnce(&[u8])) {
    let mut lines = vec![Line::ZERO; bytes.len().div_ceil(64)];
    let room = &mut Line::bytes_mut(&mut lines)[..bytes.len()];
    room.copy_from_slice(bytes);
    f(room);
}

/// Any bytes are an image or an error; what is an image runs.
pub fn image(bytes: &[u8]) {
    aligned(bytes, |bytes| {
        let Ok(image) = Image::parse(bytes) else { return };
        assert!(image.name().len() <= 64);
        let _ = image.verify();
        for tokenizer in [image.source_tokenizer(), image.target_tokenizer()].into_iter().flatten() {
            super::tokenizers::check(&tokenizer, "a B, c\u{301} 1ab");
        }
        run(image.model());
    });
}

/// Runs a model with everything that a session can do: with tokens that it knows and lengths
/// that were planned nothing may fail.
pub(crate) fn run(model: Model<'_>) {
    let c = *model.plan().config();
    for capacity in [
        Capacity { batch: 1, source: 1, target: 1, chunk: 1 },
        Capacity { batch: 2, source: 3, target: 5, chunk: 2 },
    ] {
        let Ok(model) = model.with_capacity(capacity) else { continue };
        let (need, capacity) = (model.plan().arena(), model.plan().capacity());
        if need > ARENA {
            continue;
        }
        let mut arena = vec![Line([f32::NAN; 16]); need];
        let (_, short) = arena.split_at_mut(1);
        assert_eq!(model.session(short, Cpu::baseline()).map(|_| ()), Err(Error::Arena { need }));
        for cpu in [Cpu::baseline(), Cpu::detect()] {
            let mut session = model.session(&mut arena, cpu).expect("an arena as large as planned");
            let mut vector = vec![0.0; c.d_model as usize];
            if c.has_encoder() {
                let last = c.source_vocab - 1;
                let (one, two) = ([0, last, 0], [last]);
                let sources = [&one[..capacity.source], &two[..]];
                let sources = &sources[..capacity.batch];
                session.encode(sources).expect("known tokens");
                let encoded = session.encoded(0).expect("an encoded source").len();
                assert_eq!(encoded, capacity.source * vector.len());
                session.embedding(0, &mut vector).expect("an encoded source");
                let over = session.encode(&[&[c.source_vocab]]);
                assert_eq!(over, Err(Error::Token { token: c.source_vocab, vocab: c.source_vocab }));
            }
            let vocab = if c.has_decoder() { c.target_vocab } else { c.source_vocab };
            assert!(session.nearest(&vector).expect("a vector of d_model") < vocab);
            let tokens = [0, vocab - 1, 0];
            let batch = session.batch();
            let targets = [&tokens[..capacity.target.min(3)], &[]];
            match session.decode(&targets[..batch]).map(<[f32]>::len) {
                Ok(scores) => assert_eq!(scores, batch * vocab as usize),
                Err(error) => assert!(matches!(error, Error::Missing(_)), "{error}"),
            }
            let mut told = 0;
            let generated = session.generate(4, |sequence, token| {
                assert!(sequence < batch && token < vocab);
                told += 1;
            });
            assert!(matches!(generated, Ok(_) | Err(Error::Missing(_))) && told <= 4 * batch);
            session.restart(batch).expect("the session's own batch");
            let each = session.decode_each(&targets[..batch], |_, _, scores| {
                assert_eq!(scores.len(), vocab as usize);
            });
            assert!(matches!(each, Ok(()) | Err(Error::Missing(_))), "{each:?}");
        }
    }
}
