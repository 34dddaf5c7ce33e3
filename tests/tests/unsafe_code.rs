//! Every `unsafe` block is in one of these files, and there are no more of them than are counted
//! here: who adds one says so in this table. (That each has a proof is clippy's to hold.)

use std::collections::BTreeMap;
use std::path::Path;

/// Files, their `unsafe` blocks and implementations, and what these are for.
const COUNTED: [(&str, usize, &str); 19] = [
    ("core/src/cpu.rs", 17, "calls of kernels whose instructions the CPU has, which holding a Cpu proves"),
    ("core/src/cpu/detect.rs", 2, "XGETBV, once CPUID says that there is one"),
    ("core/src/ffi/attention.rs", 8, "pointers of C, checked, as slices"),
    ("core/src/ffi/cpu.rs", 2, "the same"),
    ("core/src/ffi/kernels.rs", 8, "the same"),
    ("core/src/ffi/memory.rs", 5, "the checks themselves"),
    ("core/src/ffi/model.rs", 9, "an image in the caller's struct"),
    ("core/src/ffi/session.rs", 26, "a session in the caller's arena, and calls of its callbacks"),
    ("core/src/ffi/text.rs", 8, "pointers of C, checked, as slices"),
    ("core/src/line.rs", 13, "lines as floats, words, halves or bytes, and bytes as lines"),
    ("core/src/simd/avx2.rs", 20, "loads and stores of whole vectors, and intrinsics"),
    ("core/src/simd/avx512.rs", 9, "the same"),
    ("core/src/simd/cortex_m.rs", 4, "instructions without an intrinsic, as assembly"),
    ("core/src/simd/dsp.rs", 3, "the same"),
    ("core/src/simd/neon.rs", 3, "intrinsics"),
    ("core/src/simd/vnni.rs", 7, "intrinsics"),
    ("std-bindings/src/measure/peak.rs", 11, "intrinsics of the measured loops"),
    ("std-bindings/src/source.rs", 1, "mapping a weight file"),
    ("std-bindings/web/src/lib.rs", 1, "the arena that the page grows"),
];

/// Counts the blocks of every file below a folder.
fn count(root: &Path, folder: &Path, found: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            let blocks = code
                .map(|line| line.matches("unsafe {").count() + line.matches("unsafe impl").count())
                .sum::<usize>();
            if blocks > 0 {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                found.insert(name, blocks);
            }
        }
    }
}

#[test]
fn unsafe_code_is_where_it_is_counted_and_no_more_of_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    for folder in ["core/src", "std-bindings/src", "std-bindings/web/src"] {
        count(root, &root.join(folder), &mut found);
    }
    let counted: BTreeMap<String, usize> =
        COUNTED.iter().map(|(file, blocks, _)| (file.to_string(), *blocks)).collect();
    assert_eq!(found, counted, "left: what is there; right: what tests/tests/unsafe_code.rs counts");
}
