//! Published models with eight-bit weights: near the floats, the same on every backend.

use picoformer::families::Family;
use picoformer::{ModelFile, Runner};
use picoformer_core::Cpu;
use picoformer_core::config::{Element, Elements};
use picoformer_tests::downloaded;
use std::path::Path;

fn runner(family: Family, weights: &Path, element: Element, cpu: Cpu) -> Runner {
    let image = family.convert(weights, Elements::all(element)).unwrap();
    Runner::new(ModelFile::from_bytes(&image).unwrap()).unwrap().with_cpu(cpu)
}

fn cosine(x: &[f32], y: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()
}

#[test]
fn minilm_by_64_keeps_its_vectors_and_all_backends_with_fused_products_agree() {
    let (Some(weights), Some(lines)) = (downloaded("minilm/model.safetensors"), downloaded("text/lines.txt"))
    else {
        return;
    };
    let text = std::fs::read_to_string(lines).unwrap();
    // Real text in many languages, of some length.
    let texts: Vec<&str> = text.lines().filter(|l| l.split(' ').count() >= 4).step_by(80).take(100).collect();
    assert!(texts.len() >= 80);
    let floats = runner(Family::Bert, &weights, Element::F32, Cpu::detect()).embed(&texts).unwrap();
    let mut fused: Vec<Vec<Vec<f32>>> = Vec::new();
    for cpu in Cpu::all() {
        let bytes = runner(Family::Bert, &weights, Element::Int8By64, cpu).embed(&texts).unwrap();
        let cosines: Vec<f64> = floats.iter().zip(&bytes).map(|(x, y)| cosine(x, y)).collect();
        let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
        let worst = cosines.iter().copied().fold(1.0, f64::min);
        assert!(mean >= 0.999 && worst >= 0.997, "mean {mean}, worst {worst} on {}", cpu.name());
        if cpu.name() != "baseline" {
            fused.push(bytes);
        }
    }
    assert!(fused.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn ruaccent_in_eight_bits_writes_the_reference_texts() {
    let Some(weights) = downloaded("ruaccent/acc_model.pt") else { return };
    let path = picoformer_tests::fixture("ruaccent_ref.json");
    let reference: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for cpu in Cpu::all() {
        let mut floats = runner(Family::Ruaccent, &weights, Element::F32, cpu);
        let mut bytes = runner(Family::Ruaccent, &weights, Element::Int8, cpu);
        for run in reference.as_array().unwrap() {
            let text = run["input"].as_str().unwrap();
            let expected = floats.transform(text).unwrap().text;
            assert_eq!(bytes.transform(text).unwrap().text, expected, "on {}", cpu.name());
            if !run["padded_to_256"].as_bool().unwrap() {
                assert_eq!(expected, run["out"].as_str().unwrap());
            }
        }
    }
}
