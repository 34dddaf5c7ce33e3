//! What firmware for QEMU's RISC-V board shares: its serial port, and the end of a program.

#![no_std]

use core::fmt::{Result, Write};

/// The serial port.
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> Result {
        for byte in text.bytes() {
            // SAFETY: the board's UART has its output register here.
            unsafe { core::ptr::write_volatile(0x1000_0000 as *mut u8, byte) }
        }
        Ok(())
    }
}

/// Ends the emulator: exit code 0, or 1.
pub fn exit(ok: bool) -> ! {
    loop {
        // SAFETY: the board's test device ends the emulator when this register is written.
        unsafe { core::ptr::write_volatile(0x10_0000 as *mut u32, if ok { 0x5555 } else { 0x1_3333 }) }
    }
}

/// A fault would otherwise wait for ever.
#[unsafe(no_mangle)]
extern "C" fn ExceptionHandler() -> ! {
    let _ = writeln!(Serial, "exception");
    exit(false)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Serial, "{info}");
    exit(false)
}
