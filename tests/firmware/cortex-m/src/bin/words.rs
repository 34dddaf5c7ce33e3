//! Spelling to phonemes on a microcontroller: the model stays in flash, the arena is a static.

#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use picoformer_core::{Capacity, Cpu, Error, Image, Line, Plan, image};
use picoformer_cortex_m as board;

/// The longest word and the longest answer, in tokens.
const LONGEST: usize = 32;

/// 64-byte aligned, read where it lies.
static MODEL: &[u8] = picoformer_core::include_image!("../../../../../std-bindings/models/g2p-en/g2p-en.pf");

const CAPACITY: Capacity = Capacity { batch: 1, source: LONGEST, target: LONGEST, chunk: 1 };

/// Known when this is compiled, so that a board that is too small does not link.
const PLAN: Plan = match image::plan(MODEL) {
    Ok(plan) => match plan.with_capacity(CAPACITY) {
        Ok(plan) => plan,
        Err(_) => panic!("the capacity"),
    },
    Err(_) => panic!("the image"),
};

const WORDS: [&str; 8] =
    ["a", "hello", "transformer", "microcontroller", "queue", "knight", "don't", "supercalifragilistic"];

fn run(arena: &mut [Line]) -> Result<(), Error> {
    let image = Image::parse(MODEL)?;
    let source = image.source_tokenizer().ok_or(Error::Missing("tokenizer"))?;
    let target = image.target_tokenizer().ok_or(Error::Missing("tokenizer"))?;
    let model = image.model().with_capacity(CAPACITY)?;
    let mut session = model.session(arena, Cpu::detect())?;
    for word in WORDS {
        let (mut tokens, mut answer, mut length) = ([0; LONGEST], [0; LONGEST], 0);
        let encoded = source.encode(word, &mut tokens)?;
        session.encode(&[tokens.get(..encoded.len).unwrap_or_default()])?;
        session.generate(LONGEST, |_, token| {
            if let Some(to) = answer.get_mut(length) {
                (*to, length) = (token, length + 1);
            }
        })?;
        let mut text = [0; 256];
        hprintln!("{} {}", word, target.decode(answer.get(..length).unwrap_or_default(), &mut text)?);
    }
    Ok(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // `entry` gives this out, once, as `&'static mut`.
    static mut ARENA: [Line; PLAN.arena()] = [Line::ZERO; PLAN.arena()];
    hprintln!("{} bytes of model in flash, {} of arena", MODEL.len(), PLAN.arena() * size_of::<Line>());
    let done = run(ARENA);
    if let Err(error) = done {
        hprintln!("{}", error);
    }
    board::exit(done.is_ok())
}
