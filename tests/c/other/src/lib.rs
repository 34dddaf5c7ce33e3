//! Another Rust library for C, with everything that Rust archives usually bring along: std
//! with unwinding where there is an operating system, a panic handler where there is none,
//! and compiler_builtins.

#![cfg_attr(target_os = "none", no_std)]

/// A number out of divisions and copies that need compiler_builtins on most targets.
#[unsafe(no_mangle)]
pub extern "C" fn other_mix(x: u64) -> u64 {
    let halves = [x; 40].map(|y| (y as f64 / 3.0) as u64 ^ (u128::from(y) * 7 / 5) as u64);
    let mut copy = [0; 40];
    copy[..(x % 40) as usize].copy_from_slice(&halves[..(x % 40) as usize]);
    copy.iter().fold(0, |sum: u64, y| sum.wrapping_mul(31).wrapping_add(y % (x | 1)))
}

/// Whether a panic unwinds as it should.
#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
pub extern "C" fn other_unwinds() -> i32 {
    std::panic::set_hook(Box::new(|_| {}));
    std::panic::catch_unwind(|| panic!("{}", "on purpose")).is_err().into()
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
