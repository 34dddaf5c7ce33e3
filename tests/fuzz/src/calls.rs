//! The C interface as a sequence of calls: any order, any arguments that keep the header's one
//! condition, that arrays are as long as their lengths say. Sizes that no memory has are among
//! them, and pointers that are null, misaligned or overlap.
//!
//! Arrays end where their memory does, so that a sanitizer sees what is touched beyond them.

use super::{image, seeds};
use arbitrary::{Result, Unstructured};
use picoformer_core::Line;
use picoformer_core::ffi::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

/// Lines of each array, enough for all sizes of [`Calls::size`].
const ARRAY: usize = 1024;
/// Stands in results before they are written.
const UNTOUCHED: usize = 0x5555_5555;

static IMAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(seeds::images);

struct Calls<'u> {
    u: Unstructured<'u>,
    image: &'u [u8],
    models: [PfModel; 2],
    arenas: [Vec<u8>; 2],
    /// Each in the arena of the same number.
    sessions: [*mut PfSession; 2],
    arrays: [Vec<Line>; 6],
}

/// A sequence of calls: the first byte chooses a model's image, then each call begins with its number.
pub fn c_calls(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let image = &IMAGES[usize::from(*first) % IMAGES.len()];
    image::aligned(image, |image| {
        let mut calls = Calls {
            u: Unstructured::new(bytes),
            image,
            // SAFETY: words; the header says that zeros are a model that is not open.
            models: unsafe { std::mem::zeroed() },
            arenas: [vec![0xA5; 1 << 15], vec![0x5A; 1 << 14]],
            sessions: [null_mut(); 2],
            arrays: std::array::from_fn(|_| vec![Line([0.5; 16]); ARRAY]),
        };
        // Most sequences want an open session.
        // SAFETY: the image outlives the calls, the model is ours.
        let opened = unsafe { pf_model_open(image.as_ptr().cast(), image.len(), &mut calls.models[0]) };
        assert_eq!(opened, Code::Ok as c_int);
        while calls.step().is_ok() {}
    });
}

/// What every call answers is a code that has a text.
fn known(code: c_int) -> bool {
    assert!(Code::ALL.iter().any(|known| *known as c_int == code), "{code} is not a code");
    // SAFETY: a static string, as the header says.
    assert!(!unsafe { CStr::from_ptr(pf_error(code)) }.to_bytes().is_empty());
    code == Code::Ok as c_int
}

/// What callbacks get as their context.
struct Context {
    session: *mut PfSession,
    calls: usize,
    memory: *mut f32,
}

/// Uses the session that calls it, which is refused.
unsafe extern "C" fn each(context: *mut c_void, _sequence: usize, _token: u32) {
    // SAFETY: only ever called with the context that was given beside it.
    let context = unsafe { &mut *context.cast::<Context>() };
    context.calls += 1;
    // SAFETY: the session is open.
    assert_eq!(unsafe { pf_session_restart(context.session, 1) }, Code::State as c_int);
}

/// Memory for every second weights.
unsafe extern "C" fn watch(context: *mut c_void, weights: *const PfWeights) -> *mut f32 {
    // SAFETY: as in `each`; the weights are there during the call.
    let (context, weights) = unsafe { (&mut *context.cast::<Context>(), &*weights) };
    context.calls += 1;
    assert!(weights.heads * weights.queries * weights.keys <= 16 * ARRAY);
    if context.calls.is_multiple_of(2) { null_mut() } else { context.memory }
}

impl Calls<'_> {
    /// A size: small, around a line, or larger than any memory.
    fn size(&mut self) -> Result<usize> {
        Ok(match self.u.arbitrary::<u8>()? {
            small @ 0..=199 => usize::from(small % 9),
            200..=239 => 15 + usize::from(self.u.arbitrary::<u8>()? % 3),
            240..=247 => usize::MAX,
            248.. => usize::MAX / 2 + 1,
        })
    }

    /// Whether to do something odd.
    fn rarely(&mut self) -> Result<bool> {
        Ok(self.u.arbitrary::<u8>()? >= 248)
    }

    /// An array of `floats` at the end of one of the arrays; rarely null, misaligned, or the
    /// start of the first one.
    fn array(&mut self, at: usize, floats: usize) -> Result<*mut f32> {
        let last = 16 * ARRAY;
        let odd = self.u.arbitrary::<u8>()?;
        let array = self.arrays[if odd == 255 { 0 } else { at }].as_mut_ptr().cast::<f32>();
        Ok(match odd {
            254 => null_mut(),
            // Refused wherever it is looked at, and within the array.
            253 => array.cast::<u8>().wrapping_add(1).cast(),
            252 | 255 => array,
            _ => array.wrapping_add(last.saturating_sub(floats)),
        })
    }

    /// The same, of whole lines.
    fn lines(&mut self, at: usize, floats: usize) -> Result<*mut f32> {
        self.array(at, floats.checked_next_multiple_of(16).unwrap_or(usize::MAX))
    }

    fn cpu(&mut self) -> Result<*const PfCpu> {
        Ok(match self.u.arbitrary::<u8>()? {
            255 => self.image.as_ptr().cast(),
            index => pf_cpu_at(usize::from(index % 4)),
        })
    }

    fn model(&mut self) -> Result<*mut PfModel> {
        Ok(match self.u.arbitrary::<u8>()? {
            255 => null_mut(),
            254 => (&raw mut self.models[1]).cast::<u8>().wrapping_add(4).cast(),
            253 => &mut self.models[1],
            _ => &mut self.models[0],
        })
    }

    fn session(&mut self) -> Result<(*mut PfSession, usize)> {
        Ok(match self.u.arbitrary::<u8>()? {
            255 => (null_mut(), 0),
            254 => (self.arenas[0].as_mut_ptr().wrapping_add(1).cast(), 0),
            number => (self.sessions[usize::from(number) % 2], usize::from(number) % 2),
        })
    }

    /// Some of the input as text, UTF-8 or not, with a length that may be none.
    fn text(&mut self) -> Result<(Vec<i8>, usize)> {
        let length = usize::from(self.u.arbitrary::<u8>()? % 24);
        let text: Vec<i8> = self.u.bytes(length.min(self.u.len()))?.iter().map(|b| *b as i8).collect();
        let length = if self.rarely()? { usize::MAX } else { text.len() };
        Ok((text, length))
    }

    /// Sixty-four tokens, of which the calls read at most as many as the contexts allow.
    fn tokens(&mut self) -> Result<[u32; 64]> {
        let mut tokens = [0; 64];
        for token in &mut tokens[..self.u.len().min(12)] {
            *token = self.u.arbitrary::<u8>()?.into();
            *token = if *token < 240 { *token % 8 } else { u32::MAX - *token };
        }
        Ok(tokens)
    }

    fn step(&mut self) -> Result<()> {
        if self.u.is_empty() {
            return Err(arbitrary::Error::NotEnoughData);
        }
        match self.u.arbitrary::<u8>()? % 24 {
            0 => self.open_model(),
            1 => self.describe(),
            2 => self.encode_text(),
            3 => self.decode_text(),
            4 => self.word(),
            5 | 6 => self.open_session(),
            7 | 8 => self.encode(),
            9 | 10 => self.decode(),
            11 => self.generate(),
            12 => self.generate_into(),
            13 => self.results(),
            14 => self.watch(),
            15 | 16 => self.rows(),
            17 | 18 => self.matmul(),
            19..=22 => self.attention(),
            _ => self.restart(),
        }
    }

    fn open_model(&mut self) -> Result<()> {
        let (model, length) = (self.model()?, self.image.len());
        let (start, size) = match self.u.arbitrary::<u8>()? {
            0..=199 => (self.image.as_ptr(), length),
            200..=229 => (self.image.as_ptr(), self.u.int_in_range(0..=length)?),
            230..=239 => (self.image.as_ptr().wrapping_add(4), 64),
            240..=247 => (self.image.as_ptr(), usize::MAX),
            248.. => (null(), length),
        };
        // SAFETY: the bytes are there for as long as any model; sizes beyond them no memory has.
        known(unsafe { pf_model_open(start.cast(), size, model) });
        // SAFETY: as above.
        known(unsafe { pf_model_verify(model) });
        Ok(())
    }

    fn describe(&mut self) -> Result<()> {
        let model = self.model()?;
        // SAFETY: a struct of numbers.
        let mut info: PfInfo = unsafe { std::mem::zeroed() };
        // SAFETY: ours to read and write.
        if known(unsafe { pf_model_info(model, &mut info) }) {
            assert!(info.d_model > 0 && info.name.contains(&0));
        }
        let (side, token) = (self.u.int_in_range(-1..=2)?, self.u.arbitrary::<u8>()?.into());
        let (mut text, mut length) = (null(), UNTOUCHED);
        // SAFETY: as above.
        match known(unsafe { pf_text_token(model, side, token, &mut text, &mut length) }) {
            true => assert!(self.image.as_ptr_range().contains(&text.cast()) && length < self.image.len()),
            false => assert!(text.is_null() && length == UNTOUCHED),
        }
        Ok(())
    }

    fn encode_text(&mut self) -> Result<()> {
        let (model, side, (text, length)) = (self.model()?, self.u.int_in_range(-1..=2)?, self.text()?);
        let (mut tokens, capacity) = ([u32::MAX; 64], self.size()?);
        let mut encoded = PfEncoded { tokens: UNTOUCHED, unknown: 0, first_unknown: 0 };
        let (from, to) = (text.as_ptr().cast(), tokens.as_mut_ptr());
        // SAFETY: arrays of these lengths, or lengths that no memory has.
        let ok = known(unsafe { pf_text_encode(model, side, from, length, to, capacity, &mut encoded) });
        assert_eq!(ok, encoded.tokens != UNTOUCHED);
        if ok && capacity > 0 {
            assert!(tokens[encoded.tokens..].iter().all(|token| *token == u32::MAX));
        }
        Ok(())
    }

    fn decode_text(&mut self) -> Result<()> {
        let (model, side, tokens) = (self.model()?, self.u.int_in_range(-1..=2)?, self.tokens()?);
        let (count, capacity) = (self.size()?, self.size()?);
        let (mut text, mut length) = ([0x7f_u8; 64], UNTOUCHED);
        let to = text.as_mut_ptr().cast();
        // SAFETY: as in `encode_text`.
        let ok =
            known(unsafe { pf_text_decode(model, side, tokens.as_ptr(), count, to, capacity, &mut length) });
        match ok {
            true if capacity > 0 => assert_eq!(text[length], 0),
            true => {}
            false => assert_eq!((length, text), (UNTOUCHED, [0x7f; 64])),
        }
        Ok(())
    }

    fn word(&mut self) -> Result<()> {
        let ((text, length), from) = (self.text()?, self.size()?);
        let (mut start, mut end) = (UNTOUCHED, UNTOUCHED);
        // SAFETY: as in `encode_text`.
        let ok = unsafe { pf_text_word(text.as_ptr().cast(), length, from, &mut start, &mut end) };
        if known(ok) {
            assert!(from <= start && start <= end && end <= length);
        }
        Ok(())
    }

    fn open_session(&mut self) -> Result<()> {
        let (model, cpu, number) = (self.model()?, self.cpu()?, usize::from(self.u.arbitrary::<bool>()?));
        let (batch, source, target, chunk) = (self.size()?, self.size()?, self.size()?, self.size()?);
        let capacity = PfCapacity { batch, source, target, chunk };
        let mut need = UNTOUCHED;
        // SAFETY: ours to read and write.
        let sized = known(unsafe { pf_arena_size(model, &capacity, &mut need) });
        let shift = usize::from(self.u.arbitrary::<u8>()? % 80);
        let arena = &mut self.arenas[number];
        let room = arena.len() - shift;
        let less = self.u.arbitrary::<u8>()? < 16;
        let size = if less { need.wrapping_sub(1) } else { need }.min(room);
        // Where the arena was, another may come: its session is over.
        let mut session = null_mut();
        // The session ends where the arena does.
        let start = arena.as_mut_ptr().wrapping_add(arena.len() - shift - size);
        self.sessions[number] = null_mut();
        // SAFETY: so many bytes are there, and nothing else uses them.
        let code = unsafe { pf_session_open(model, &capacity, cpu, start.cast(), size, &mut session) };
        assert_eq!(known(code), !session.is_null());
        if sized && (less || need > room) {
            assert!(code != Code::Ok as c_int, "one byte less was accepted");
        }
        self.sessions[number] = session;
        Ok(())
    }

    /// Tokens, a stride, lengths and a batch, as the header arranges them.
    fn batch(&mut self) -> Result<([u32; 64], usize, [usize; 17], usize)> {
        let mut lengths = [0; 17];
        let (tokens, stride, batch) = (self.tokens()?, self.size()?, self.size()?);
        for length in &mut lengths[..batch.min(4)] {
            *length = self.size()?;
        }
        Ok((tokens, stride, lengths, batch))
    }

    fn encode(&mut self) -> Result<()> {
        let ((session, _), (tokens, stride, lengths, batch)) = (self.session()?, self.batch()?);
        let tokens = if self.rarely()? { null() } else { tokens.as_ptr() };
        // SAFETY: 17 lengths, of which only the first four are not 0; the contexts allow eight tokens
        // of each, which are among the 64, or the stride is one that no memory has.
        known(unsafe { pf_session_encode(session, tokens, stride, lengths.as_ptr(), batch) });
        Ok(())
    }

    fn decode(&mut self) -> Result<()> {
        let ((session, _), (tokens, stride, lengths, batch)) = (self.session()?, self.batch()?);
        let (mut logits, from) = (null(), tokens.as_ptr());
        // SAFETY: as in `encode`.
        let ok = unsafe { pf_session_decode(session, from, stride, lengths.as_ptr(), batch, &mut logits) };
        assert!(known(ok) || logits.is_null());
        Ok(())
    }

    fn generate(&mut self) -> Result<()> {
        let ((session, _), limit) = (self.session()?, self.size()?);
        let mut context = Context { session, calls: 0, memory: null_mut() };
        let (each, mut ended): (PfEach, c_int) = (each, 7);
        let callback = if self.rarely()? { None } else { Some(each) };
        let context = (&raw mut context).cast();
        // SAFETY: the context is there during the call.
        let ok = known(unsafe { pf_session_generate(session, limit, callback, context, &mut ended) });
        assert!(if ok { ended == 0 || ended == 1 } else { ended == 7 });
        Ok(())
    }

    fn generate_into(&mut self) -> Result<()> {
        let ((session, _), batch, limit) = (self.session()?, self.size()?, self.size()?);
        let (mut tokens, mut lengths, mut ended) = ([u32::MAX; 17 * 17], [0; 17], 7);
        let (to, counts) = (tokens.as_mut_ptr(), lengths.as_mut_ptr());
        // SAFETY: as many places as the largest sizes need.
        if known(unsafe { pf_session_generate_into(session, batch, limit, to, counts, &mut ended) }) {
            assert!(lengths.iter().all(|length| *length <= limit));
        }
        Ok(())
    }

    fn results(&mut self) -> Result<()> {
        let ((session, _), sequence, size) = (self.session()?, self.size()?, self.size()?);
        let (mut vectors, mut tokens, mut token) = (null(), UNTOUCHED, u32::MAX);
        // SAFETY: ours to write.
        if known(unsafe { pf_session_encoded(session, sequence, &mut vectors, &mut tokens) }) {
            assert!(tokens <= 8);
        }
        let out = self.array(0, size)?;
        // SAFETY: an array of that length, or a length that no memory has.
        known(unsafe { pf_session_embedding(session, sequence, size, out) });
        // SAFETY: the same.
        known(unsafe { pf_session_nearest(session, out, size, &mut token) });
        Ok(())
    }

    /// Watched for one encoding and one decoding, then no more.
    fn watch(&mut self) -> Result<()> {
        let (session, _) = self.session()?;
        let mut context = Context { session, calls: 0, memory: self.arrays[4].as_mut_ptr().cast() };
        let watch: PfWatch = watch;
        let (tokens, lengths) = ([0, 1, 2, 0, 1, 2], [3, 2]);
        let mut logits = null();
        // SAFETY: the context is there until the watch ends; tokens and lengths are arrays of these sizes.
        unsafe {
            known(pf_session_watch(session, Some(watch), (&raw mut context).cast()));
            for batch in [1, 2] {
                known(pf_session_encode(session, tokens.as_ptr(), 3, lengths.as_ptr(), batch));
                known(pf_session_decode(session, tokens.as_ptr(), 3, lengths.as_ptr(), batch, &mut logits));
            }
            known(pf_session_watch(session, None, null_mut()));
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        let ((session, _), batch) = (self.session()?, self.size()?);
        // SAFETY: null, ours, or an open session.
        known(unsafe { pf_session_restart(session, batch) });
        Ok(())
    }

    /// The kernels of rows and of single numbers.
    fn rows(&mut self) -> Result<()> {
        let (cpu, rows, cols) = (self.cpu()?, self.size()?, self.size()?);
        let all = rows.saturating_mul(cols);
        let (x, y) = (self.array(0, all)?, self.array(1, all)?);
        let (gamma, beta) = (self.lines(2, cols)?, self.lines(3, cols)?);
        let (eps, activation) = (f32::from_bits(self.u.arbitrary()?), self.u.int_in_range(-1..=8)?);
        // SAFETY: arrays of these lengths, or lengths that no memory has.
        unsafe {
            match self.u.arbitrary::<u8>()? % 5 {
                0 => known(pf_softmax(cpu, rows, cols, x)),
                1 => known(pf_layer_norm(cpu, rows, cols, y, gamma, beta, eps, x)),
                2 => known(pf_rms_norm(cpu, rows, cols, y, gamma, eps, x)),
                3 => known(pf_add(cpu, y, all, x)),
                _ => known(pf_activate(cpu, activation, all, x)),
            };
        }
        Ok(())
    }

    fn matmul(&mut self) -> Result<()> {
        let (cpu, rows, cols, depth) = (self.cpu()?, self.size()?, self.size()?, self.size()?);
        let mut floats = UNTOUCHED;
        // SAFETY: ours to write.
        let sized = known(unsafe { pf_matmul_packed_size(cols, depth, &mut floats) });
        let weights = self.array(0, cols.saturating_mul(depth))?;
        let packed = self.lines(1, if sized { floats } else { 0 })?;
        // SAFETY: arrays of these lengths, or lengths that no memory has.
        known(unsafe { pf_matmul_pack(weights, cols, depth, packed, floats) });
        let (x, out) =
            (self.array(0, rows.saturating_mul(depth))?, self.array(2, rows.saturating_mul(cols))?);
        let (bias, activation) = (self.lines(3, cols)?, self.u.int_in_range(-1..=8)?);
        // SAFETY: the same.
        known(unsafe { pf_matmul(cpu, x, rows, depth, packed, bias, activation, cols, out) });
        Ok(())
    }

    fn attention(&mut self) -> Result<()> {
        let mut keep = [1; 17 * 17];
        for flag in &mut keep[..self.u.len().min(8)] {
            *flag = [0, 1, 1, 2][usize::from(self.u.arbitrary::<u8>()? >> 6)];
        }
        let (heads, head_size) = (self.size()?, self.size()?);
        let width = heads.saturating_mul(head_size.div_ceil(16)).saturating_mul(16);
        let mut shape = PfAttentionShape {
            heads,
            head_size,
            queries: self.size()?,
            query_stride: if self.rarely()? { self.size()? } else { width },
            keys: self.size()?,
            capacity: self.size()?,
            first: self.size()?,
            mask: self.u.int_in_range(-1..=5)?,
            keep: if self.rarely()? { null() } else { keep.as_ptr() },
        };
        let (mut keys, mut values, mut scratch) = (0, 0, 0);
        // SAFETY: ours to read and write.
        if !known(unsafe { pf_attention_sizes(&shape, &mut keys, &mut values, &mut scratch) }) {
            // Then nothing else may accept it.
            (keys, values, scratch) = (16 * ARRAY, 16 * ARRAY, 16 * ARRAY);
        }
        if keys.max(values).max(scratch) > 16 * ARRAY {
            // Larger than the arrays here, though not than all memory.
            shape.capacity = 0;
            shape.keys = 0;
        }
        let (packed_keys, packed_values) = (self.lines(0, keys)?, self.lines(1, values)?);
        let (at, count) = (self.size()?, self.size()?);
        let rows = self.array(2, count.saturating_mul(width))?;
        let (query, out) = (
            self.array(2, shape.queries.saturating_mul(width))?,
            self.array(3, shape.queries.saturating_mul(width))?,
        );
        let all = shape.heads.saturating_mul(shape.queries).saturating_mul(shape.keys);
        let (scratch, weights) = (self.lines(4, scratch)?, self.array(5, all)?);
        // SAFETY: arrays of these lengths, or lengths that no memory has.
        unsafe {
            known(pf_attention_append(&shape, at, rows, rows, width, count, packed_keys, packed_values));
            known(pf_attention(
                self.cpu()?,
                &shape,
                query,
                packed_keys,
                packed_values,
                scratch,
                weights,
                out,
            ));
        }
        Ok(())
    }
}
