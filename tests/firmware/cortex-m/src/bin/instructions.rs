//! Instructions of kernels and of the model, one case a line: its name, their number, and its
//! multiply-adds, elements or tokens.
//!
//! For `-icount shift=6`: 64 ns an instruction, so that the timer, which runs at the clock of
//! the core, counts instructions. They are the same in every run.

#![no_std]
#![no_main]

use checks::counts;
use core::sync::atomic::{AtomicU32, Ordering};
use cortex_m::peripheral::{Peripherals, SYST, syst::SystClkSource};
use cortex_m_semihosting::hprintln;
use picoformer_core::{Error, Line};
use picoformer_cortex_m::{CLOCK_MHZ, exit};

const RELOAD: u32 = 0x00ff_ffff;

/// How often the timer has come to its end.
static ROUNDS: AtomicU32 = AtomicU32::new(0);

#[cortex_m_rt::exception]
fn SysTick() {
    ROUNDS.store(ROUNDS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Instructions since the start.
fn now() -> u64 {
    loop {
        let rounds = ROUNDS.load(Ordering::Relaxed);
        let left = SYST::get_current();
        if ROUNDS.load(Ordering::Relaxed) == rounds {
            let ticks = u64::from(rounds) * (u64::from(RELOAD) + 1) + u64::from(RELOAD - left);
            return ticks * 1000 / (64 * CLOCK_MHZ);
        }
    }
}

fn count(name: &str, work: usize, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    run()?;
    let start = now();
    run()?;
    hprintln!("{} {} {}", name, now() - start, work);
    Ok(())
}

#[cfg(model_fits)]
fn words(arena: &mut [Line]) -> Result<(), Error> {
    use picoformer_cortex_m::model;
    let image = model::open()?;
    let mut session = model::session(&image, arena)?;
    for word in ["hello", "transformer"] {
        let mut text = [0; 256];
        let mut run = || model::spell(&image, &mut session, word, &mut text).map(|_| ());
        count(word, 1, &mut run)?;
    }
    Ok(())
}

fn start() -> Option<()> {
    let mut timer = Peripherals::take()?.SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(RELOAD);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
    Some(())
}

#[cfg(model_fits)]
const ARENA_LINES: usize = picoformer_cortex_m::model::PLAN.arena();
#[cfg(not(model_fits))]
const ARENA_LINES: usize = 0;
#[cfg(not(model_fits))]
fn words(_: &mut [Line]) -> Result<(), Error> {
    Ok(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // `entry` gives these out, once, as `&'static mut`.
    static mut ROOM: [Line; counts::LINES] = [Line::ZERO; counts::LINES];
    static mut ARENA: [Line; ARENA_LINES] = [Line::ZERO; ARENA_LINES];
    if start().is_none() {
        exit(false);
    }
    let done = counts::kernels(ROOM, &mut count).and_then(|()| words(ARENA));
    if let Err(error) = done {
        hprintln!("{}", error);
    }
    exit(done.is_ok())
}
