//! `pf_cpu`: the backends, as addresses of static tables.

use super::memory::{Out, slice_mut};
use super::{Code, run};
use crate::line::LANES;
use crate::{Cpu, Error, Line, selftest};
use core::ffi::{c_char, c_int};
use core::ptr;

/// A backend, of which C holds only the address.
#[repr(C)]
#[derive(Debug)]
pub struct PfCpu {
    _opaque: [u8; 0],
}

/// The backend that C means.
pub(super) fn cpu(cpu: *const PfCpu) -> Result<Cpu, Code> {
    match cpu.is_null() {
        true => Ok(Cpu::detect()),
        false => Cpu::from_ptr(cpu.cast()).ok_or(Code::Choice),
    }
}

/// How many backends run here.
#[unsafe(no_mangle)]
pub extern "C" fn pf_cpu_count() -> usize {
    Cpu::all().count()
}

/// A backend by its number, slowest first; null beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn pf_cpu_at(index: usize) -> *const PfCpu {
    Cpu::all().nth(index).map_or(ptr::null(), |cpu| cpu.as_ptr().cast())
}

/// The fastest backend.
#[unsafe(no_mangle)]
pub extern "C" fn pf_cpu_fastest() -> *const PfCpu {
    Cpu::detect().as_ptr().cast()
}

/// A backend's name; null if there is no such backend.
#[unsafe(no_mangle)]
pub extern "C" fn pf_cpu_name(cpu: *const PfCpu) -> *const c_char {
    self::cpu(cpu).map_or(ptr::null(), |cpu| cpu.c_name().as_ptr())
}

/// Tests a backend's kernels.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_selftest(
    cpu: *const PfCpu,
    room: *mut f32,
    size: usize,
    kernel: *mut *const c_char,
) -> c_int {
    run(|| {
        let cpu = self::cpu(cpu)?;
        // SAFETY: the caller's promise.
        let kernel = unsafe { Out::new(kernel) }?;
        // SAFETY: the caller's promise; what is beyond `LINES` is not used.
        let room = unsafe { slice_mut(room.cast::<Line>(), (size / LANES).min(selftest::LINES)) }?;
        let found = selftest::run(cpu, room);
        if let Err(Error::Kernel(wrong)) = found {
            kernel.set(wrong.c_name().as_ptr());
        }
        Ok(found?)
    })
}
