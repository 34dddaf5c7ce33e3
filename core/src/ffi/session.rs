//! `pf_session`: sequences in progress, at the front of the caller's arena.

use super::memory::{Out, apart, product, slice, slice_mut, span};
use super::model::planned;
use super::{Code, PfCapacity, PfCpu, PfModel, cpu, run};
use crate::config::Output;
use crate::nn::{Site, Watch};
use crate::{Line, Session};
use core::ffi::{c_int, c_void};

/// What C sees as an opaque `pf_session`.
#[repr(C, align(64))]
pub struct PfSession {
    /// [`MAGIC`] and this struct's own address: what was moved is no session.
    magic: u64,
    /// Whether a function runs it, further up the stack.
    busy: bool,
    watch: Option<PfWatch>,
    context: *mut c_void,
    session: Session<'static, 'static>,
}

const MAGIC: u64 = 0x7066_7365_7373_6e31;

impl PfSession {
    fn magic(session: *const PfSession) -> u64 {
        MAGIC ^ session.addr() as u64
    }
}

/// Bytes before the session's lines, if the arena begins on a line, and those to get there.
const HEAD: usize = size_of::<PfSession>();
const SLACK: usize = align_of::<PfSession>() - 1;
const _: () =
    assert!(align_of::<PfSession>() == align_of::<Line>() && HEAD.is_multiple_of(align_of::<Line>()));

fn arena_size(lines: usize) -> Result<usize, Code> {
    product(lines, size_of::<Line>())
        .ok()
        .and_then(|bytes| bytes.checked_add(HEAD + SLACK))
        .filter(|bytes| *bytes <= isize::MAX as usize)
        .ok_or(Code::Config)
}

/// The bytes that a session of some capacity needs.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_arena_size(
    model: *const PfModel,
    capacity: *const PfCapacity,
    size: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let (model, size) = unsafe { (planned(model, capacity)?, Out::new(size)?) };
        size.set(arena_size(model.plan().arena())?);
        Ok(())
    })
}

/// Starts a session.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_open(
    model: *const PfModel,
    capacity: *const PfCapacity,
    cpu: *const PfCpu,
    arena: *mut c_void,
    size: usize,
    session: *mut *mut PfSession,
) -> c_int {
    run(|| {
        apart(&[span(arena.cast::<u8>(), size), span(session, 1)], &[span(model, 1), span(capacity, 1)])?;
        // SAFETY: the caller's promise.
        let (model, out) = unsafe { (planned(model, capacity)?, Out::new(session)?) };
        let (cpu, lines) = (cpu::cpu(cpu)?, model.plan().arena());
        if arena.is_null() {
            return Err(Code::Null);
        }
        if size < arena_size(lines)? {
            return Err(Code::Arena);
        }
        let arena = arena.cast::<u8>();
        let head = arena.wrapping_add(arena.addr().wrapping_neg() & SLACK).cast::<PfSession>();
        let body = head.wrapping_add(1).cast::<Line>();
        // SAFETY: at most `SLACK` bytes are skipped, then come `HEAD` bytes and the lines: within
        // the arena by its size, which is the caller's to write for as long as the session is
        // used; aligned as skipped. Zeros are lines.
        let body = unsafe {
            body.write_bytes(0, lines);
            slice_mut(body, lines)?
        };
        let magic = PfSession::magic(head);
        let session = model.session(body, cpu)?;
        // SAFETY: as above; the head is not part of the body.
        unsafe {
            head.write(PfSession {
                magic,
                busy: false,
                watch: None,
                context: core::ptr::null_mut(),
                session,
            });
        }
        out.set(head);
        Ok(())
    })
}

/// Runs `body` with an open session that nothing else runs, and with who watches it.
///
/// # Safety
/// `session` is null, or the caller's to read and write.
unsafe fn with(
    session: *mut PfSession,
    body: impl FnOnce(&mut Session<'static, 'static>, &mut Watcher) -> Result<(), Code>,
) -> c_int {
    run(|| {
        if session.is_null() {
            return Err(Code::Null);
        }
        if !session.is_aligned() {
            return Err(Code::Align);
        }
        // SAFETY: the caller's to read; volatile, as it may never have been written.
        let magic = unsafe { (&raw const (*session).magic).read_volatile() };
        // SAFETY: the word is written last by `pf_session_open`, and knows where it was written,
        // so a session is here. Its fields are taken one by one: a call from a callback, while
        // `body` has the inner session, sees only `busy`.
        unsafe {
            if magic != PfSession::magic(session) || (*session).busy {
                return Err(Code::State);
            }
            (*session).busy = true;
            let mut watcher = Watcher { watch: (*session).watch, context: (*session).context };
            let done = body(&mut (*session).session, &mut watcher);
            (*session).watch = watcher.watch;
            (*session).context = watcher.context;
            (*session).busy = false;
            done
        }
    })
}

/// A batch's tokens, as C arranges them.
struct Rows<'a> {
    tokens: &'a [u32],
    stride: usize,
    lengths: &'a [usize],
}

impl<'a> Rows<'a> {
    /// # Safety
    /// `lengths` has `batch` elements, and `tokens` those that they say; see [`slice`].
    unsafe fn new(
        tokens: *const u32,
        stride: usize,
        lengths: *const usize,
        batch: usize,
        longest: usize,
    ) -> Result<Self, Code> {
        // SAFETY: promised.
        let lengths = unsafe { slice(lengths, batch) }?;
        let mut end = 0;
        for (i, &length) in lengths.iter().enumerate() {
            if length > longest {
                return Err(Code::Full);
            }
            if batch > 1 && length > stride {
                return Err(Code::Shape);
            }
            if length > 0 {
                end = product(i, stride)?.checked_add(length).ok_or(Code::Shape)?;
            }
        }
        // SAFETY: promised: the last row with tokens ends there.
        Ok(Rows { tokens: unsafe { slice(tokens, end) }?, stride, lengths })
    }

    fn row(&self, i: usize) -> &'a [u32] {
        let length = self.lengths.get(i).copied().unwrap_or(0);
        let rest = self.tokens.get(i.saturating_mul(self.stride)..).unwrap_or(&[]);
        rest.get(..length).unwrap_or(&[])
    }
}

/// Encodes a batch of sources.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_encode(
    session: *mut PfSession,
    tokens: *const u32,
    stride: usize,
    lengths: *const usize,
    batch: usize,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, watcher: &mut Watcher| {
        let plan = *session.model().plan();
        if !plan.config().has_encoder() {
            return Err(Code::Missing);
        }
        if batch > plan.capacity().batch {
            return Err(Code::Batch);
        }
        // SAFETY: the caller's promise.
        let rows = unsafe { Rows::new(tokens, stride, lengths, batch, plan.capacity().source) }?;
        Ok(session.encode_sources(batch, |i| (rows.row(i), rows.row(i).len()), watcher)?)
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// The encoder's vectors of a source.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_encoded(
    session: *mut PfSession,
    sequence: usize,
    vectors: *mut *const f32,
    tokens: *mut usize,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, _: &mut Watcher| {
        apart(&[span(vectors, 1), span(tokens, 1)], &[])?;
        // SAFETY: the caller's promise.
        let (vectors, tokens) = unsafe { (Out::new(vectors)?, Out::new(tokens)?) };
        let d_model = session.model().plan().config().d_model as usize;
        let encoded = session.encoded(sequence)?;
        tokens.set(encoded.len().checked_div(d_model).unwrap_or(0));
        vectors.set(encoded.as_ptr());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// One vector of a source.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_embedding(
    session: *mut PfSession,
    sequence: usize,
    size: usize,
    out: *mut f32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(session, |session, _| Ok(session.embedding(sequence, slice_mut(out, size)?)?)) }
}

/// Appends tokens to each target.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_decode(
    session: *mut PfSession,
    tokens: *const u32,
    stride: usize,
    lengths: *const usize,
    batch: usize,
    logits: *mut *const f32,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, watcher: &mut Watcher| {
        let most = targets(session)?;
        if batch != session.batch() {
            return Err(Code::Batch);
        }
        // SAFETY: the caller's promise.
        let (rows, logits) = unsafe { (Rows::new(tokens, stride, lengths, batch, most)?, Out::new(logits)?) };
        logits.set(session.decode_targets(batch, |i| rows.row(i), watcher)?.as_ptr());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// Tokens that a target may have, if there is anything that scores them.
fn targets(session: &Session<'_, '_>) -> Result<usize, Code> {
    let plan = session.model().plan();
    match plan.config().output {
        Output::None => Err(Code::Missing),
        Output::Tied | Output::Separate => Ok(plan.capacity().target),
    }
}

/// `pf_each` of the header.
pub type PfEach = unsafe extern "C" fn(context: *mut c_void, sequence: usize, token: u32);

/// Continues every target greedily.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_generate(
    session: *mut PfSession,
    limit: usize,
    each: Option<PfEach>,
    context: *mut c_void,
    ended: *mut c_int,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, _: &mut Watcher| {
        let each = each.ok_or(Code::Null)?;
        // SAFETY: the caller's promise.
        let ended = unsafe { Out::new(ended) }?;
        // SAFETY: the caller's function, with the context that goes with it.
        ended.set(
            session.generate(limit, |sequence, token| unsafe { each(context, sequence, token) })?.into(),
        );
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// Continues every target greedily, into memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_generate_into(
    session: *mut PfSession,
    batch: usize,
    limit: usize,
    tokens: *mut u32,
    lengths: *mut usize,
    ended: *mut c_int,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, _: &mut Watcher| {
        targets(session)?;
        if batch != session.batch() {
            return Err(Code::Batch);
        }
        let places = product(batch, limit)?;
        apart(&[span(tokens, places), span(lengths, batch), span(ended, 1)], &[])?;
        // SAFETY: the caller's promise; apart from each other.
        let (tokens, lengths, ended) =
            unsafe { (slice_mut(tokens, places)?, slice_mut(lengths, batch)?, Out::new(ended)?) };
        lengths.fill(0);
        let all = session.generate(limit, |sequence, token| {
            let place = lengths.get_mut(sequence).and_then(|length| {
                let place = tokens.get_mut(sequence * limit + *length)?;
                *length += 1;
                Some(place)
            });
            place.into_iter().for_each(|place| *place = token);
        })?;
        ended.set(all.into());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// Starts the targets anew.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_restart(session: *mut PfSession, batch: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(session, |session, _| Ok(session.restart(batch)?)) }
}

/// The token nearest to a vector.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_nearest(
    session: *mut PfSession,
    x: *const f32,
    size: usize,
    token: *mut u32,
) -> c_int {
    let body = |session: &mut Session<'_, '_>, _: &mut Watcher| {
        apart(&[span(token, 1)], &[span(x, size)])?;
        // SAFETY: the caller's promise.
        let (x, token) = unsafe { (slice(x, size)?, Out::new(token)?) };
        token.set(session.nearest(x)?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}

/// Attention weights that are about to be computed: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct PfWeights {
    pub layer: usize,
    pub sequence: usize,
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub part: c_int,
}

/// `pf_watch` of the header.
pub type PfWatch = unsafe extern "C" fn(context: *mut c_void, weights: *const PfWeights) -> *mut f32;

/// Who watches a session, if anyone.
struct Watcher {
    watch: Option<PfWatch>,
    context: *mut c_void,
}

impl Watch for Watcher {
    fn weights(&mut self, site: Site, heads: usize, queries: usize, keys: usize) -> Option<&mut [f32]> {
        let part = match site.part {
            "encoder.self_attention" => 0,
            "decoder.self_attention" => 1,
            "decoder.cross_attention" => 2,
            _ => return None,
        };
        let weights = PfWeights { layer: site.layer, sequence: site.sequence, heads, queries, keys, part };
        let need = heads.checked_mul(queries)?.checked_mul(keys)?;
        // SAFETY: the caller's function, with the context that goes with it.
        let memory = unsafe { (self.watch?)(self.context, &weights) };
        // SAFETY: the function promises so much memory, or null.
        unsafe { slice_mut(memory, need) }.ok()
    }
}

/// Asks for memory for attention weights from now on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_session_watch(
    session: *mut PfSession,
    watch: Option<PfWatch>,
    context: *mut c_void,
) -> c_int {
    let body = |_: &mut Session<'_, '_>, watcher: &mut Watcher| {
        *watcher = Watcher { watch, context };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(session, body) }
}
