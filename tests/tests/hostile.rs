//! Hostile input without a fuzzer: the targets of `tests/fuzz` with their corpus, with damaged
//! seeds and with random bytes; and the memory that a weight file may take.

use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "there it is a library")]
mod targets;
use targets::{TARGETS, seeds};

thread_local! {
    /// Bytes that this thread has taken, and the most of them at once.
    static TAKEN: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counted.
struct Counting;

fn count(bytes: isize) {
    // (A thread that ends may have no cell any more.)
    let _ = TAKEN.try_with(|taken| {
        let now = taken.get().0 + bytes;
        taken.set((now, now.max(taken.get().1)));
    });
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes at once that `f` takes beyond what was taken before.
fn most(f: impl FnOnce()) -> usize {
    let before = TAKEN.get().0;
    TAKEN.set((before, before));
    f();
    (TAKEN.get().1 - before) as usize
}

/// A weight file, a configuration and what becomes of them take so many bytes for each of
/// theirs: most of it is the index that an archive announces, or packing in whole lines.
const MULTIPLE: usize = 512;
/// And so many more, whatever they are: what tiny models need whose packing is mostly rounding.
const ALWAYS: usize = 8 << 20;

/// Runs a target; the readers of files hold the bound on memory.
fn run((name, target): (&str, fn(&[u8])), bytes: &[u8]) {
    let most = most(|| target(bytes));
    if matches!(name, "weights" | "converters") {
        let allowed = MULTIPLE * bytes.len() + ALWAYS;
        assert!(most <= allowed, "{name}: {most} bytes for {}, over {allowed}", bytes.len());
    }
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

#[test]
fn the_committed_seeds_are_those_that_are_made() {
    for (target, name, bytes) in seeds::all() {
        let path = corpus().join(target).join(name);
        if std::env::var_os("WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{}: WRITE_SEEDS=1 writes it", path.display());
    }
}

#[test]
fn the_whole_corpus_runs() {
    for target in TARGETS {
        let files = std::fs::read_dir(corpus().join(target.0)).unwrap();
        let mut count = 0;
        for file in files {
            run(target, &std::fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 2, "{}: no seeds", target.0);
    }
}

#[test]
fn the_seeds_are_sound() {
    for image in seeds::images() {
        picoformer::ModelFile::from_bytes(&image).unwrap();
    }
    // What the converters' seeds become.
    let folder = std::env::temp_dir().join(format!("picoformer-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (target, name, bytes) in seeds::all() {
        if target == "converters" {
            let length = |at| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let (json, vocab) = (&bytes[6..][..length(2)], &bytes[6 + length(2)..][..length(4)]);
            std::fs::write(folder.join("config.json"), json).unwrap();
            std::fs::write(folder.join("vocab.json"), json).unwrap();
            std::fs::write(folder.join("vocab.txt"), vocab).unwrap();
            let weights = folder.join("weights");
            std::fs::write(&weights, &bytes[6 + length(2) + length(4)..]).unwrap();
            let (_, family) = picoformer::families::Family::ALL[usize::from(bytes[0])];
            let image = family.convert(&weights, picoformer_core::config::Elements::F32);
            picoformer::ModelFile::from_bytes(&image.unwrap_or_else(|e| panic!("{name}: {e:#}"))).unwrap();
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_changed_byte_of_every_small_model_is_an_error_or_runs() {
    for whole in seeds::images() {
        // The checksum apart: nobody asks it here, and it is behind no decision.
        for at in (0..whole.len()).filter(|at| !(24..32).contains(at)) {
            // Some values where the byte decides something; weights are numbers whatever they are.
            let decides = at < 256 || at + 256 > whole.len();
            let values: &[u8] = if decides { &[0, 1, 0x7f, 0x80, 0xff] } else { &[0xff] };
            let mut bytes = whole.clone();
            for &value in values {
                bytes[at] = value;
                targets::image(&bytes);
            }
        }
    }
}

#[test]
fn every_value_of_every_byte_of_a_configuration_is_an_error_or_runs() {
    let mut images = seeds::images();
    let mut bytes = images.pop().unwrap();
    for at in 56..172 {
        let before = bytes[at];
        for value in 0..=255 {
            bytes[at] = value;
            targets::image(&bytes);
        }
        bytes[at] = before;
    }
}

#[test]
fn every_truncation_of_every_small_model_is_an_error() {
    for whole in seeds::images() {
        for length in 0..whole.len() {
            targets::image(&whole[..length]);
        }
    }
}

/// Damages a seed: bytes changed, cut out, or doubled.
fn damaged(seed: &[u8], changes: &[(u16, u8, u8)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for &(place, how, value) in changes {
        let at = usize::from(place) % (bytes.len() + 1);
        match how {
            0..180 if at < bytes.len() => bytes[at] = value,
            180..200 => bytes.truncate(at),
            200..225 => bytes.insert(at, value),
            _ => {
                let end = (at + usize::from(value)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

proptest! {
    // Some hundred times; PROPTEST_CASES=100000 is a fuzzer of a kind where there is no other.
    #[test]
    fn damaged_seeds_and_random_bytes_do_no_harm(
        number in 0usize..1000,
        changes in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>()), 1..12),
        noise in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        for target in TARGETS {
            let seeds: Vec<_> = seeds_of(target.0);
            run(target, &damaged(&seeds[number % seeds.len()], &changes));
            run(target, &noise);
        }
    }
}

fn seeds_of(target: &str) -> Vec<Vec<u8>> {
    thread_local! {
        static ALL: Vec<seeds::Seed> = seeds::all();
    }
    ALL.with(|all| all.iter().filter(|seed| seed.0 == target).map(|seed| seed.2.clone()).collect())
}

/// The end of a zip archive that announces `entries`, after `before` bytes of anything.
fn announcing(entries: u16, before: usize) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(before, 0);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(entries.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend((46 * u32::from(entries)).min(before as u32).to_le_bytes());
    bytes.extend((before as u32).to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

#[test]
fn an_archive_that_announces_more_than_it_has_takes_little_memory() {
    for entries in [1, 100, 10_000, u16::MAX] {
        for before in [4, 1000, 100_000] {
            run(("weights", targets::weights), &announcing(entries, before));
        }
    }
}

#[test]
fn a_configuration_larger_than_its_weights_takes_no_memory() {
    for (target, _, seed) in seeds::all().into_iter().filter(|seed| seed.0 == "converters") {
        let json = &seed[6..6 + usize::from(u16::from_le_bytes([seed[2], seed[3]]))];
        // Each number of the configuration in turn, as large as it can be without being refused.
        for (at, _) in json.iter().enumerate().filter(|(_, b)| b.is_ascii_digit()) {
            for large in ["16777216", "8192", "4294967295"] {
                let mut changed = json.to_vec();
                changed.splice(at..=at, large.bytes());
                let mut bytes = seed[..2].to_vec();
                bytes.extend((changed.len() as u16).to_le_bytes());
                bytes.extend(&seed[4..6]);
                bytes.extend(&changed);
                bytes.extend(&seed[6 + json.len()..]);
                run((target, targets::converters), &bytes);
            }
        }
    }
}
