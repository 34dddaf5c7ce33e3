//! `pf_cpu`: the backends, as addresses of static tables.

use super::Code;
use crate::Cpu;
use core::ffi::c_char;
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
