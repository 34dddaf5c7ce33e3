//! The library with a panic handler that does not link: it calls what nobody defines. A
//! program of one entry point, whose unused sections are dropped, links exactly when no panic
//! is reachable from there. The entry points are those of C, and here what only Rust has.

#![no_std]

use core::hint::black_box;
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::int8::Int8;
use picoformer_core::kernels::pack::{pack_int8, pack_linear};
use picoformer_core::nn::{Site, Watch};
use picoformer_core::{Capacity, Config, Cpu, Error, Image, Line, Model, Plan, Session, Threads, image};

pub use picoformer_core::ffi::*;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        safe fn a_panic_is_reachable() -> !;
    }
    a_panic_is_reachable()
}

/// Something that the compiler knows nothing of.
fn any<T>() -> T
where
    T: 'static,
{
    unsafe extern "C" {
        static anything: core::ffi::c_void;
    }
    // SAFETY: this is linked, never run.
    unsafe { (&raw const anything).cast::<T>().read() }
}

struct Two;

impl Threads for Two {
    fn count(&self) -> usize {
        any()
    }
    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        a();
        b();
    }
}

struct Everything;

impl Watch for Everything {
    fn step(&mut self, _: &'static str, _: usize, _: usize, x: &[f32]) {
        black_box(x);
    }
    fn weights(&mut self, _: Site, _: usize, _: usize, _: usize) -> Option<&mut [f32]> {
        any()
    }
}

fn session() -> Result<Session<'static, 'static>, Error> {
    let model = Image::parse(any())?.model().with_threads(any())?;
    Ok(model.session(any(), any())?.on(&Two))
}

macro_rules! entries {
    ($($name:ident $body:block)*) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {
            let body = || -> Result<(), Error> { $body; Ok(()) };
            black_box(body().is_ok());
        }
    )* };
}

entries! {
    rust_write_image {
        let header = image::header(any::<&Config>(), any(), any(), any(), any());
        black_box(header);
        image::seal(any());
    }
    rust_plan {
        let plan = Plan::new(any())?.with_capacity(any::<Capacity>())?.with_threads(any())?;
        black_box(Model::new(plan, any())?);
        black_box((plan.arena(), plan.weights()));
    }
    rust_describe {
        picoformer_core::model::describe(any::<&Plan>(), &mut |path, tensor, lines| {
            black_box((path.as_str(), tensor, lines));
        });
    }
    rust_encode {
        let mut session = session()?;
        session.encode_watched(any(), &mut Everything)?;
        session.encode_padded(any(), any(), any())?;
        session.embedding(any(), any())?;
        black_box(session.encoded(any())?);
    }
    rust_decode {
        let mut session = session()?;
        black_box(session.decode_watched(any(), &mut Everything)?);
        session.decode_each(any(), |sequence, position, logits| {
            black_box((sequence, position, logits));
        })?;
    }
    rust_generate {
        let mut session = session()?;
        session.restart(any())?;
        black_box(session.generate(any(), |sequence, token| {
            black_box((sequence, token));
        })?);
        black_box(session.nearest(any())?);
    }
    rust_int8 {
        let cpu: Cpu = any();
        cpu.quantize(any(), any(), any(), any())?;
        cpu.matmul_int8(any(), any(), any::<Int8<'static>>(), any(), any::<Activation>(), any(), any())?;
        pack_int8(any(), any(), any(), any(), any(), any());
    }
    rust_kernels {
        let cpu: Cpu = any();
        pack_linear(any(), any(), any(), any::<&mut [Line]>());
        cpu.embed(any(), any(), any(), any(), any())?;
        cpu.embed_tied(any(), any(), any(), any(), any())?;
        black_box(cpu.nearest(any(), any(), any(), any())?);
    }
}

/// What must not link.
#[unsafe(no_mangle)]
pub extern "C" fn panics(i: usize) -> u8 {
    *[1, 2, 3].get(i).expect("an index of three")
}
