//! `Plan` from arbitrary numbers: what it accepts adds up, and runs.

use arbitrary::Unstructured;
use picoformer_core::{Capacity, Config, Line, Model, Plan, model};

/// Lines of the largest blob that is described or run.
const WEIGHTS: usize = 1 << 12;

/// The meanings that each word of a configuration has, by its place; 0 is any number.
const MEANINGS: [u32; 29] =
    [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4, 0, 2, 2, 0, 2, 2, 5, 2, 2, 3, 2, 3, 2, 0, 0, 4];

/// The words of a configuration, then the numbers of a capacity and of threads.
pub fn plan(bytes: &[u8]) {
    let mut u = Unstructured::new(bytes);
    let mut words = Config::PAPER.to_words();
    for (word, meanings) in words.iter_mut().zip(MEANINGS) {
        let number = number(&mut u);
        // What is a choice mostly is a known one: else nearly all would be refused for that.
        *word = if meanings > 0 && number < 200 { number % meanings } else { number };
    }
    // Eight-bit weights are told by four digits.
    if let Some(elements) = [0, 0x1111, 0x2222, 0x0120].get(words[28] as usize) {
        words[28] = *elements;
    }
    let Some(config) = Config::from_words(&words) else { return };
    assert_eq!(Config::from_words(&config.to_words()).map(|c| c.to_words()), Some(words));
    let Ok(plan) = Plan::new(config) else { return };
    check(&plan);
    let mut size = || match number(&mut u) {
        u32::MAX => usize::MAX,
        size => size as usize,
    };
    let capacity = Capacity { batch: size(), source: size(), target: size(), chunk: size() };
    let Ok(plan) = plan.with_threads(size()).and_then(|plan| plan.with_capacity(capacity)) else { return };
    check(&plan);
}

/// A number, mostly a small one; 0 from the end of the input on.
fn number(u: &mut Unstructured<'_>) -> u32 {
    match u.arbitrary().unwrap_or(0u8) {
        small @ 0..200 => small.into(),
        200..220 => u.arbitrary().unwrap_or(0u16).into(),
        220..230 => 1 << 24,
        230..240 => u32::MAX,
        240.. => u.arbitrary().unwrap_or(0),
    }
}

/// The arena's buffers lie side by side, the tensors add up to the weights; a small plan runs.
fn check(plan: &Plan) {
    let _ = plan.multiply_adds();
    let map = plan.map();
    let mut end = 0;
    for region in map.iter().filter(|region| region.group == "session") {
        assert_eq!(region.offset, end, "{}", region.name);
        end += region.lines;
    }
    let last = map.iter().map(|region| region.offset + region.lines).max();
    assert_eq!(last, Some(plan.arena()));
    if plan.weights() > WEIGHTS {
        return;
    }
    let mut lines = 0;
    model::describe(plan, &mut |_, _, of_tensor| lines += of_tensor);
    assert_eq!(lines, plan.weights());
    let blob = vec![Line([0.25; 16]); lines];
    super::image::run(Model::new(*plan, &blob).expect("weights as long as planned"));
}
