//! `pf_model`: an image, opened in a struct of the caller.

use super::memory::{Out, apart, one, slice, span};
use super::{Code, run};
use crate::tokenize::Unit;
use crate::{Capacity, Image, Line, Model};
use core::ffi::{c_char, c_int, c_void};

/// `PF_MODEL_WORDS` of the header.
pub const MODEL_WORDS: usize = 80;

/// The caller's struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PfModel {
    opaque: [u64; MODEL_WORDS],
}

/// What stands in it once it is open.
#[repr(C)]
struct Open {
    magic: u64,
    image: Image<'static>,
}

const MAGIC: u64 = 0x7066_6d6f_6465_6c31;
const _: () =
    assert!(size_of::<Open>() <= size_of::<PfModel>() && align_of::<Open>() <= align_of::<PfModel>());

/// The image of an open model.
///
/// # Safety
/// `model` is null, or the caller's to read.
pub(super) unsafe fn image(model: *const PfModel) -> Result<Image<'static>, Code> {
    // SAFETY: promised; any words are a `PfModel`.
    unsafe { one(model) }?;
    let open = model.cast::<Open>();
    // SAFETY: within the struct, as the assertion above says. It may never have been written
    // by anyone: volatile, so that the compiler believes in whatever is there.
    let magic = unsafe { (&raw const (*open).magic).read_volatile() };
    match magic == MAGIC {
        // SAFETY: only `pf_model_open` writes this word, after it has written the image, whose
        // bytes the caller keeps.
        true => Ok(unsafe { (*open).image }),
        false => Err(Code::State),
    }
}

/// Opens an image.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_model_open(image: *const c_void, size: usize, model: *mut PfModel) -> c_int {
    run(|| {
        // SAFETY: the caller's to write.
        unsafe { Out::new(model) }?;
        if image.is_null() {
            return Err(Code::Null);
        }
        if !image.cast::<Line>().is_aligned() {
            return Err(Code::Align);
        }
        apart(&[span(model, 1)], &[span(image.cast::<u8>(), size)])?;
        // SAFETY: the caller promises the bytes, for as long as the model is used.
        let image = Image::parse(unsafe { slice(image.cast(), size) }?)?;
        // SAFETY: the caller's to write, aligned and large enough.
        unsafe { model.cast::<Open>().write(Open { magic: MAGIC, image }) };
        Ok(())
    })
}

/// Compares the checksum.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_model_verify(model: *const PfModel) -> c_int {
    // SAFETY: the caller's promise.
    run(|| Ok(unsafe { image(model) }?.verify()?))
}

/// What a model is: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct PfInfo {
    pub name: [c_char; 68],
    pub stack: u32,
    pub d_model: u32,
    pub heads: u32,
    pub d_ff: u32,
    pub encoder_layers: u32,
    pub decoder_layers: u32,
    pub source_vocab: u32,
    pub target_vocab: u32,
    pub source_context: u32,
    pub target_context: u32,
    pub positions: u32,
    pub norm: u32,
    pub norm_place: u32,
    pub norm_eps: f32,
    pub activation: u32,
    pub output: u32,
    pub pooling: u32,
    pub unit_length: u32,
    pub begin: u32,
    pub end: u32,
    pub source_tokenizer: u32,
    pub target_tokenizer: u32,
    pub unit: u32,
}

/// Describes a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_model_info(model: *const PfModel, info: *mut PfInfo) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let (image, info) = unsafe { (image(model)?, Out::new(info)?) };
        let model = image.model();
        let c = model.plan().config();
        let mut name = [0; 68];
        // An image has room for 64 bytes, so a zero is left.
        name.iter_mut().zip(image.name().bytes()).for_each(|(to, from)| *to = from as c_char);
        info.set(PfInfo {
            name,
            stack: c.stack as u32,
            d_model: c.d_model,
            heads: c.heads,
            d_ff: c.d_ff,
            encoder_layers: c.encoder_layers,
            decoder_layers: c.decoder_layers,
            source_vocab: c.source_vocab,
            target_vocab: c.target_vocab,
            source_context: c.source_context,
            target_context: c.target_context,
            positions: c.positions as u32,
            norm: c.norm as u32,
            norm_place: c.norm_place as u32,
            norm_eps: c.norm_eps,
            activation: c.activation as u32,
            output: c.output as u32,
            pooling: c.pooling as u32,
            unit_length: c.unit_length.into(),
            begin: c.begin,
            end: c.end,
            source_tokenizer: image.source_tokenizer().is_some().into(),
            target_tokenizer: image.target_tokenizer().is_some().into(),
            unit: match image.source_tokenizer().map(|t| t.unit()) {
                Some(Unit::Word) => 1,
                _ => 0,
            },
        });
        Ok(())
    })
}

/// What a session has room for: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct PfCapacity {
    pub batch: usize,
    pub source: usize,
    pub target: usize,
    pub chunk: usize,
}

/// A model, planned for a capacity.
///
/// # Safety
/// Both are null, or the caller's to read.
pub(super) unsafe fn planned(
    model: *const PfModel,
    capacity: *const PfCapacity,
) -> Result<Model<'static>, Code> {
    // SAFETY: promised.
    let (image, &c) = unsafe { (image(model)?, one(capacity)?) };
    let capacity = Capacity { batch: c.batch, source: c.source, target: c.target, chunk: c.chunk };
    Ok(image.model().with_capacity(capacity)?)
}
