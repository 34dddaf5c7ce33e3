//! `core/include/picoformer.h` and `picoformer_core::ffi` agree: a C program prints what the
//! header says, and here stands what Rust says.
#![cfg(unix)]

use picoformer_core::ffi;
use picoformer_core::kernels::activation::Activation;
use std::mem::offset_of;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The numbers that C expressions have, as the C compiler sees them.
fn in_c(expressions: &[String]) -> Vec<i64> {
    // A folder for each call: tests run at the same time.
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("picoformer-header-{}-{call}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    let print: String =
        expressions.iter().map(|e| format!("printf(\"%lld\\n\", (long long)({e}));\n")).collect();
    let (source, program) = (folder.join("header.c"), folder.join("header"));
    std::fs::write(
        &source,
        format!("#include <picoformer.h>\n#include <stdio.h>\nint main(void) {{\n{print}return 0;\n}}\n"),
    )
    .expect("a C file");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../core/include"))
        .args([source.as_os_str(), "-o".as_ref(), program.as_os_str()])
        .status()
        .expect("a C compiler, cc, which linking Rust needs too");
    assert!(compiled.success());
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_dir_all(&folder).expect("the scratch folder can go");
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Compares pairs of a C expression and Rust's value of it.
fn agree(pairs: &[(String, i64)]) {
    let expressions: Vec<String> = pairs.iter().map(|(e, _)| e.clone()).collect();
    for ((expression, rust), c) in pairs.iter().zip(in_c(&expressions)) {
        assert_eq!(c, *rust, "{expression}");
    }
}

macro_rules! layout {
    ($pairs:ident, $rust:ident, $c:literal: $($field:ident)*) => {
        $pairs.push((format!("sizeof({})", $c), size_of::<ffi::$rust>() as i64));
        $($pairs.push((
            format!("offsetof({}, {})", $c, stringify!($field)),
            offset_of!(ffi::$rust, $field) as i64,
        ));)*
    };
}

#[test]
fn the_header_has_the_version_of_the_library() {
    let version: Vec<i64> =
        env!("CARGO_PKG_VERSION").split('.').map(|n| n.parse().expect("digits")).collect();
    agree(&[
        ("PF_VERSION_MAJOR".into(), version[0]),
        ("PF_VERSION_MINOR".into(), version[1]),
        ("PF_VERSION_PATCH".into(), version[2]),
        ("PF_VERSION".into(), ffi::pf_version().into()),
    ]);
}

#[test]
fn structs_lie_the_same_in_c_and_in_rust() {
    let mut pairs = vec![("sizeof(pf_model)".to_owned(), size_of::<ffi::PfModel>() as i64)];
    layout!(pairs, PfInfo, "pf_info": name stack d_model heads d_ff encoder_layers decoder_layers
        source_vocab target_vocab source_context target_context positions norm norm_place norm_eps
        activation output pooling unit_length begin end source_tokenizer target_tokenizer unit);
    layout!(pairs, PfCapacity, "pf_capacity": batch source target chunk);
    layout!(pairs, PfEncoded, "pf_encoded": tokens unknown first_unknown);
    layout!(pairs, PfWeights, "pf_weights": layer sequence heads queries keys part);
    layout!(pairs, PfAttentionShape, "pf_attention_shape":
        heads head_size queries query_stride keys capacity first mask keep);
    agree(&pairs);
}

#[test]
fn codes_are_pinned_and_each_has_a_text() {
    let name = |code: ffi::Code| match code {
        ffi::Code::Ok => "PF_OK".to_owned(),
        _ => format!("PF_E_{}", format!("{code:?}").to_uppercase()),
    };
    let codes = ffi::Code::ALL;
    agree(&codes.iter().map(|&code| (name(code), code as i64)).collect::<Vec<_>>());
    // Pinned: a number never changes its meaning, and new codes come after.
    assert!(codes.iter().enumerate().all(|(i, &code)| code as i32 == -(i as i32)));
    let text = ffi::pf_error;
    let mut texts: Vec<_> = codes.iter().map(|&code| text(code as i32)).collect();
    assert_eq!(text(1), text(-(codes.len() as i32)), "no code, no meaning");
    texts.push(text(1));
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), codes.len() + 1, "no text twice");
    let header = include_str!("../../core/include/picoformer.h");
    assert_eq!(header.matches("#define PF_E_").count() + 1, codes.len(), "the header has no code more");
}

#[test]
fn choices_have_the_numbers_of_rusts_enums() {
    use picoformer_core::config::{NormKind, NormPlace, Output, Pooling, Positions, Stack};
    macro_rules! choices {
        ($($c:literal = $rust:expr;)*) => { agree(&[$(($c.to_owned(), $rust as i64),)*]) };
    }
    choices! {
        "PF_STACK_ENCODER" = Stack::Encoder;
        "PF_STACK_DECODER" = Stack::Decoder;
        "PF_STACK_ENCODER_DECODER" = Stack::EncoderDecoder;
        "PF_NORM_LAYER" = NormKind::Layer;
        "PF_NORM_RMS" = NormKind::Rms;
        "PF_NORM_POST" = NormPlace::Post;
        "PF_NORM_PRE" = NormPlace::Pre;
        "PF_POSITIONS_NONE" = Positions::None;
        "PF_POSITIONS_SINUSOIDAL_INTERLEAVED" = Positions::SinusoidalInterleaved;
        "PF_POSITIONS_SINUSOIDAL_HALVES" = Positions::SinusoidalHalves;
        "PF_POSITIONS_LEARNED" = Positions::Learned;
        "PF_OUTPUT_NONE" = Output::None;
        "PF_OUTPUT_TIED" = Output::Tied;
        "PF_OUTPUT_SEPARATE" = Output::Separate;
        "PF_POOLING_NONE" = Pooling::None;
        "PF_POOLING_MEAN" = Pooling::Mean;
        "PF_POOLING_FIRST" = Pooling::First;
        "PF_IDENTITY" = Activation::Identity;
        "PF_RELU" = Activation::Relu;
        "PF_GELU_ERF" = Activation::GeluErf;
        "PF_GELU_TANH" = Activation::GeluTanh;
        "PF_SILU" = Activation::Silu;
        "PF_TANH" = Activation::Tanh;
        "PF_SIGMOID" = Activation::Sigmoid;
        "PF_EXP" = Activation::Exp;
        "PF_SELFTEST_FLOATS" = 16 * picoformer_core::selftest::LINES;
        "PF_LINE" = picoformer_core::LANES;
        "PF_PADDED(17)" = 32;
        "PF_PADDED(16)" = 16;
        "PF_PADDED(0)" = 0;
    }
}
