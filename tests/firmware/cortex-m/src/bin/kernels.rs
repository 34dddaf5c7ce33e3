//! The kernels' own tests on a microcontroller: one line each.

#![no_std]
#![no_main]

use checks::kernels;
use cortex_m_semihosting::hio;
use picoformer_core::Line;
use picoformer_cortex_m::{LARGE, exit};

const LINES: usize = if LARGE { 2048 } else { kernels::LINES };

#[cortex_m_rt::entry]
fn main() -> ! {
    // `entry` gives this out, once, as `&'static mut`.
    static mut ROOM: [Line; LINES] = [Line::ZERO; LINES];
    match hio::hstdout() {
        Ok(mut out) => exit(checks::report(ROOM, &mut out)),
        Err(()) => exit(false),
    }
}
