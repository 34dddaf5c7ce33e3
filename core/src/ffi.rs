//! The C interface. `include/picoformer.h` is its specification; what stands here is how
//! each function keeps it: pointers become slices once they are checked, errors become codes.
//!
//! Safety: every function believes its caller that an array is as long as its length says,
//! and that nobody else writes it meanwhile. Everything else is checked.

mod attention;
mod cpu;
mod kernels;
mod memory;
mod model;
mod session;
mod text;

pub use attention::*;
pub use cpu::*;
pub use kernels::*;
pub use model::*;
pub use session::*;
pub use text::*;

use crate::Error;
use core::ffi::{CStr, c_char, c_int};

/// `PF_VERSION` of the header that this is.
pub const VERSION: c_int = 100;

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn pf_version() -> c_int {
    VERSION
}

/// Codes with their numbers and what [`pf_error`] says of them.
macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// What a function answers: `PF_OK`, or why it did nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the header has them")]
        #[repr(i32)]
        pub enum Code { $($name = $number,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
        }

        fn text(code: c_int) -> &'static CStr {
            match code { $($number => $text,)* _ => c"not a code of picoformer" }
        }
    };
}

codes! {
    Ok = 0, c"done";
    Config = -1, c"a number of the model or the capacity is 0, too large or not supported";
    Weights = -2, c"the weights are not as long as the configuration needs";
    Arena = -3, c"the arena is smaller than pf_arena_size says";
    Shape = -4, c"a buffer or a stride is shorter than its shape, or sizes overflow";
    Token = -5, c"a token is not in the vocabulary";
    Batch = -6, c"more sequences than planned, or another number than the session runs";
    Full = -7, c"a sequence is longer than planned";
    Missing = -8, c"the model has no such part: encoder, decoder, output or tokenizer";
    Image = -9, c"the bytes are not a .pf image, or are cut off";
    Version = -10, c"the image is of another version of the format";
    Checksum = -11, c"the image's bytes are not those that were written";
    Buffer = -12, c"a buffer for tokens or text is too small: ask for the size first";
    Null = -13, c"a pointer is NULL that must not be";
    Align = -14, c"a pointer is not aligned as it must be";
    State = -15, c"not an open model or session, moved, or in use further up the stack";
    Text = -16, c"the text is not UTF-8";
    Overlap = -17, c"an output overlaps an input";
    Choice = -18, c"a number is none of the constants for it";
    Kernel = -19, c"a kernel gives wrong results on this CPU";
}

/// What a code means, as a static text.
#[unsafe(no_mangle)]
pub extern "C" fn pf_error(code: c_int) -> *const c_char {
    text(code).as_ptr()
}

impl From<Error> for Code {
    fn from(error: Error) -> Code {
        match error {
            Error::Config(_) => Code::Config,
            Error::Weights { .. } => Code::Weights,
            Error::Arena { .. } => Code::Arena,
            Error::Shape { .. } => Code::Shape,
            Error::Token { .. } => Code::Token,
            Error::Batch { .. } => Code::Batch,
            Error::Full { .. } => Code::Full,
            Error::Missing(_) => Code::Missing,
            Error::Image(_) => Code::Image,
            Error::Version { .. } => Code::Version,
            Error::Checksum => Code::Checksum,
            Error::Buffer { .. } => Code::Buffer,
            Error::Kernel(_) => Code::Kernel,
        }
    }
}

/// Runs the body of a C function, which leaves at the first thing that is wrong.
fn run(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    match body() {
        Ok(()) => Code::Ok as c_int,
        Err(code) => code as c_int,
    }
}

/// An archive without std must say what a panic does. None is reachable, so this is not
/// linked into anything.
#[cfg(all(feature = "capi", panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

// The shared library's memcpy comes from there.
#[cfg(all(feature = "capi", unix))]
#[link(name = "c")]
unsafe extern "C" {}
