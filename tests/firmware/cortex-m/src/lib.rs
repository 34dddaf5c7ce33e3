//! What the firmware of every Cortex-M board shares: the end of a program, also of a bad one.

#![no_std]

#[cfg(model_fits)]
pub mod model;

use cortex_m_semihosting::{debug, hprintln};

/// The clock of the core and of its timer.
pub const CLOCK_MHZ: u64 = match u64::from_str_radix(env!("CLOCK_MHZ"), 10) {
    Ok(clock) => clock,
    Err(_) => panic!("build.rs sets it"),
};

/// Whether the board has more than 128 KiB of RAM.
pub const LARGE: bool = cfg!(large);

/// Ends the emulator: exit code 0, or 1.
pub fn exit(ok: bool) -> ! {
    loop {
        debug::exit(if ok { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

/// A fault would otherwise wait for ever.
#[cortex_m_rt::exception]
unsafe fn HardFault(_: &cortex_m_rt::ExceptionFrame) -> ! {
    hprintln!("HardFault");
    exit(false)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    exit(false)
}
