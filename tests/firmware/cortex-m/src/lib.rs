//! What the firmware of every Cortex-M board shares: the end of a program, also of a bad one.

#![no_std]

use cortex_m_semihosting::{debug, hprintln};

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
