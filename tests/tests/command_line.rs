//! The command line as a person uses it: what it prints, what it says when something is
//! wrong, and that it then ends with 2 and leaves nothing half-written.

use picoformer_tests::downloaded;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The binary, built once beside this test's own.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "picoformer", "--bin", "picoformer"])
            .current_dir(workspace)
            .status()
            .unwrap();
        assert!(built.success(), "the binary does not build");
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().join("picoformer")
    })
}

fn run_with(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What a run that succeeds prints.
#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = run_with(arguments, "");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The one line on standard error of a run that is refused.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = run_with(arguments, "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "one line: {said}");
    assert!(output.stdout.is_empty());
    said
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("picoformer-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn run_gives_the_phonemes_of_words_and_texts() {
    assert_eq!(prints(&["run", "transformer"]), "T R AE0 N S F AO1 R M ER0\n");
    // Word by word; punctuation never reaches the model, nor do capitals.
    let words = prints(&["run", "hello", "o'clock"]);
    let (hello, clock) = words.trim_end().split_once('\n').unwrap();
    assert_eq!((hello, clock), ("HH EH1 L OW0", "OW0 K L AA1 K"));
    assert_eq!(prints(&["run", "  Hello -- O’CLOCK!"]), format!("{hello}  {clock}\n"));
    assert_eq!(prints(&["run", ""]), "\n");
    assert_eq!(prints(&["run", "?!"]), "\n");
}

#[test]
fn run_reads_standard_input_a_text_a_line() {
    let output = run_with(&["run"], "hello\n\no'clock\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "HH EH1 L OW0\n\nOW0 K L AA1 K\n");
    let many: String = "hello\n".repeat(150);
    assert_eq!(String::from_utf8(run_with(&["run"], &many).stdout).unwrap(), "HH EH1 L OW0\n".repeat(150));
    let mut child =
        Command::new(binary()).arg("run").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&[0xff, 0xfe, b'\n']).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 1 of standard input is not UTF-8"));
}

#[test]
fn an_unknown_character_is_reported_once_and_the_rest_goes_on() {
    let output = run_with(&["run", "café", "cafés", "hello"], "");
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches('é').count(), 1, "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    // Figures are not letters, and not nothing either.
    let said = String::from_utf8(run_with(&["run", "route 66"], "").stderr).unwrap();
    assert_eq!(said.matches('6').count(), 1, "{said}");
    let json: Value = serde_json::from_str(&prints(&["run", "--json", "café"])).unwrap();
    assert_eq!(json["unknown"][0], "é");
}

#[test]
fn json_is_one_object_a_text() {
    let lines = prints(&["run", "--json", "hello", "transformer"]);
    let all: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&all[0]["text"], &all[0]["output"]), (&Value::from("hello"), &Value::from("HH EH1 L OW0")));
    assert_eq!(all.len(), 2);
    for command in ["inspect", "plan"] {
        let value: Value = serde_json::from_str(&prints(&[command, "--json"])).unwrap();
        assert!(value.is_object(), "{command}");
    }
    let trace: Value = serde_json::from_str(&prints(&["trace", "--json", "hello"])).unwrap();
    assert_eq!(trace["target"].as_array().unwrap().len(), 5);
}

#[test]
fn a_text_longer_than_the_context_says_so_and_what_to_do() {
    let said = refused(&["run", &"a".repeat(64)]);
    assert!(said.contains("65") && said.contains("64") && said.contains("shorten"), "{said}");
    assert!(!prints(&["run", &"a".repeat(63)]).is_empty());
}

#[test]
fn a_missing_damaged_cut_or_foreign_model_is_one_clear_line() {
    let folder = scratch("damaged");
    let whole =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../std-bindings/models/g2p-en/g2p-en.pf"))
            .unwrap();
    let file = folder.join("model.pf");
    let path = file.to_str().unwrap();
    assert!(refused(&["run", "--model", path, "a"]).contains("cannot be opened"));
    let refuse = |bytes: &[u8], what: &str| {
        std::fs::write(&file, bytes).unwrap();
        for command in [
            &["run", "--model", path, "a"][..],
            &["inspect", path],
            &["plan", path],
            &["trace", "--model", path, "a"],
        ] {
            let said = refused(command);
            assert!(said.contains(what) && said.contains("model.pf"), "{said}");
        }
    };
    refuse(b"", "picoform");
    refuse(b"not a model at all", "picoform");
    refuse(&whole[..whole.len() / 2], "cut off");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    refuse(&damaged, "checksum");
    let mut newer = whole.clone();
    newer[8] = 2;
    refuse(&newer, "version 2");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_wrong_argument_is_one_line_too_and_help_is_no_error() {
    for wrong in
        [&["run", "--bogus"][..], &["plan", "--batch", "-1"], &["similarity", "a", "b"], &["nonsense"], &[]]
    {
        refused(wrong);
    }
    assert!(refused(&["plan", "--source", "0"]).contains("source"));
    assert!(refused(&["plan", "--batch", "0"]).contains("batch"));
    assert!(refused(&["run", "--model", env!("CARGO_MANIFEST_DIR"), "a"]).contains("not a regular file"));
    assert!(prints(&["--help"]).contains("trace") && prints(&["--version"]).contains("picoformer"));
}

#[test]
fn convert_leaves_nothing_behind_when_it_fails() {
    let folder = scratch("convert");
    let out = folder.join("out.pf");
    let (input, out) = (folder.join("model.npz"), out.to_str().unwrap());
    assert!(refused(&["convert", "g2p", input.to_str().unwrap(), out]).contains("cannot be opened"));
    assert!(refused(&["convert", "gpt9", "x", out]).contains("g2p, bert, ruaccent, torch"));
    std::fs::write(&input, b"PK nonsense").unwrap();
    refused(&["convert", "g2p", input.to_str().unwrap(), out]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "only the input");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn inspect_plan_and_trace_show_what_a_teacher_would() {
    let inspect = prints(&["inspect"]);
    for word in ["EncoderDecoder", "d_model", "encoder.0.self_attention.query_key_value", "checksum"] {
        assert!(inspect.contains(word), "{word}");
    }
    let plan = prints(&["plan", "--source", "20", "--target", "20"]);
    for word in ["arena", "cross_keys", "hidden", "multiply-adds", "share"] {
        assert!(plan.contains(word), "{word}");
    }
    let trace = prints(&["trace", "hello"]);
    for word in
        ["h e l l o <eos>", "[6 × 128]", "encoder.self_attention", "cross-attention", "answer: HH EH1 L OW0"]
    {
        assert!(trace.contains(word), "{word}: {trace}");
    }
}

#[test]
fn bench_measures_one_pass_or_everything() {
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&prints(arguments)).unwrap() };
    let pass = |more: &[&str]| json(&[&["bench", "--json", "--batch", "2", "--source", "5"], more].concat());
    for (more, numbers, tokens) in [
        (&[][..], 64, 0),
        (&["--target", "4"], 64, 0),
        (&["--generate", "6", "--cpu", "baseline", "--threads", "2"], 0, 12),
    ] {
        let found = pass(more);
        assert!(
            found["seconds"].as_f64() >= found["minimum"].as_f64() && found["minimum"].as_f64() > Some(0.0)
        );
        let length = |key: &str| found[key].as_array().unwrap().len();
        assert_eq!((length("output").min(64), length("tokens")), (numbers, tokens), "{found}");
    }
    assert_eq!(json(&["bench", "--attention", "2x16x3x5", "--json"])["output"].as_array().unwrap().len(), 32);
    let whole = prints(&["bench"]);
    for word in ["the peak", "matmul", "attention", "softmax", "layer norm", "gelu", "baseline", "tokens/s"] {
        assert!(whole.contains(word), "{word}: {whole}");
    }
    for (wrong, why) in [
        (&["--threads", "0"][..], "at least 1"),
        (&["--cpu", "z80"], "baseline"),
        (&["--source", "9999"], "positions"),
        (&["--batch", "0"], "batch"),
        (&["--source", "0"], "source"),
        (&["--target", "3", "--generate", "3"], "cannot be used"),
        (&["--attention", "2x16x3"], "four numbers"),
    ] {
        let said = refused(&[&["bench"], wrong].concat());
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(binary())
        .args(["inspect"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn bert_is_converted_and_compares_sentences() {
    let Some(input) = downloaded("minilm/model.safetensors") else { return };
    let folder = scratch("bert");
    let (out, input) = (folder.join("minilm.pf"), input.to_str().unwrap().to_owned());
    let out = out.to_str().unwrap();
    assert!(refused(&["convert", "ruaccent", &input, out]).contains("not of this family"));
    prints(&["convert", "bert", &input, out]);
    let cosine =
        |a: &str, b: &str| prints(&["similarity", "--model", out, a, b]).trim().parse::<f64>().unwrap();
    assert_eq!(cosine("hello world", "hello world"), 1.0);
    let alike = cosine("The cat sits outside", "The feline is outdoors");
    let unlike = cosine("The cat sits outside", "Stock prices fell sharply");
    assert!(alike > 0.5 && unlike < 0.2, "{alike} {unlike}");
    let vector = prints(&["run", "--model", out, "hello world"]);
    assert_eq!(vector.split_whitespace().count(), 384);
    assert!(refused(&["trace", "--model", out, &"word ".repeat(600)]).contains("512"));
    assert!(prints(&["trace", "--model", out, "hello world"]).contains("self-attention"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn selftest_tests_every_kernel_on_every_backend() {
    let text = prints(&["selftest"]);
    for cpu in picoformer_core::Cpu::all() {
        assert!(
            text.lines().any(|line| line.starts_with(cpu.name()) && line.contains("17 kernels are right"))
        );
    }
    for line in prints(&["selftest", "--json"]).lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["ok"], true);
    }
}
