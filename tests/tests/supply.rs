//! What the core is made of: three crates and theirs, nothing else, on any target.

use std::collections::BTreeSet;
use std::process::Command;

/// Every crate that is compiled into the core or for it, and who brings it.
const TREE: [(&str, &str); 8] = [
    ("bytemuck", "safe_arch"),
    ("byteorder", "hash32"),
    ("hash32", "heapless"),
    ("heapless", "the core: vectors and strings of fixed room"),
    ("libm", "the core: functions that f32 has only with std"),
    ("safe_arch", "wide"),
    ("stable_deref_trait", "heapless"),
    ("wide", "the core: vectors on every target"),
];

/// The names of the crates that the core needs on any target, down to a depth.
fn tree(depth: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["tree", "-p", "picoformer-core", "--edges=normal,build", "--target=all", "--all-features"])
        .args(["--prefix=none", "--format={p}", "--offline", "--depth", depth])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "picoformer-core").map(str::to_owned).collect()
}

#[test]
fn the_core_depends_on_three_crates_and_theirs() {
    assert_eq!(tree("1"), BTreeSet::from(["heapless", "libm", "wide"].map(str::to_owned)));
    assert_eq!(tree("99"), TREE.iter().map(|(name, _)| name.to_string()).collect());
}
