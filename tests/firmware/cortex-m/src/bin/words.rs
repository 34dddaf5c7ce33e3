//! Spelling to phonemes on a microcontroller, one word a line.

#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use picoformer_core::{Error, Line};
use picoformer_cortex_m::{exit, model};

const LINES: usize = model::PLAN.arena();
const WORDS: [&str; 8] =
    ["a", "hello", "transformer", "microcontroller", "queue", "knight", "don't", "supercalifragilistic"];

fn run(arena: &mut [Line]) -> Result<(), Error> {
    let image = model::open()?;
    let mut session = model::session(&image, arena)?;
    for word in WORDS {
        let mut text = [0; 256];
        hprintln!("{}: {}", word, model::spell(&image, &mut session, word, &mut text)?);
    }
    Ok(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // `entry` gives this out, once, as `&'static mut`.
    static mut ARENA: [Line; LINES] = [Line::ZERO; LINES];
    hprintln!("model {} bytes, arena {} bytes", model::MODEL.len(), LINES * size_of::<Line>());
    let done = run(ARENA);
    if let Err(error) = done {
        hprintln!("{}", error);
    }
    exit(done.is_ok())
}
