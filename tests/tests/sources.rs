//! Weight files are read as they were written, and no damage to them is more than an error.

use picoformer::source::{Source, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use std::borrow::Cow;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A file in a directory of its own, gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str, content: &[u8]) -> Scratch {
        let dir = std::env::temp_dir().join(format!("picoformer-sources-{}-{test}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let scratch = Scratch(dir);
        scratch.write(content);
        scratch
    }

    fn path(&self) -> PathBuf {
        self.0.join("weights.bin")
    }

    fn write(&self, content: &[u8]) {
        fs::write(self.path(), content).unwrap();
    }

    fn open(&self) -> anyhow::Result<Source> {
        Source::open(&self.path())
    }

    /// The one line that opening the content ends in.
    fn refusal(&self, content: &[u8]) -> String {
        self.write(content);
        let message = self.open().expect_err("must be refused").to_string();
        assert!(message.contains("weights.bin") && !message.contains('\n'), "{message}");
        message
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn zip(method: CompressionMethod, members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn header(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

const MATRIX: [f32; 6] = [1.0, -2.0, 3.5, 0.0, 1e-9, 7.0];

fn npz(method: CompressionMethod) -> Vec<u8> {
    let doubles: Vec<u8> = [0.5f64, -8.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let members = [
        ("layer.weight.npy", npy(1, &header("<f4", "False", "(2, 3)"), &le(&MATRIX))),
        ("layer.bias.npy", npy(2, &header("<f8", "False", "(2,)"), &doubles)),
        ("scalar.npy", npy(3, &header("<f4", "False", "()"), &le(&[4.0]))),
        ("ids.npy", npy(1, &header("<i8", "False", "(1,)"), &[0; 8])),
    ];
    zip(method, &members)
}

fn safetensors() -> Vec<u8> {
    let (floats, half, brain, ids) =
        (le(&MATRIX), [0x00, 0x3c, 0x00, 0xc0], [0x80, 0x3f, 0x00, 0xc0], [0; 8]);
    let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
    let tensors = [
        ("weight", view(Dtype::F32, &[2, 3], &floats)),
        ("half", view(Dtype::F16, &[2], &half)),
        ("brain", view(Dtype::BF16, &[2, 1], &brain)),
        ("ids", view(Dtype::I64, &[1], &ids)),
    ];
    safetensors::serialize(tensors, None).unwrap()
}

/// A pickle of one tensor `w` over storage 0: its storage's class and length, its offset, shape, strides.
fn pickle(class: &str, count: u8, offset: u8, shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
    let mut p = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(X\x01\0\0\0w".to_vec();
    p.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage");
    p.extend(format!("c{class}\n").bytes());
    p.extend(b"X\x01\0\0\x000X\x03\0\0\0cpuK");
    p.extend([count, b't', b'Q', b'K', offset]);
    p.extend([b'K', shape[0], b'J', shape[1], 0, 0, 0, 0x86]);
    p.extend([b'K', strides[0], b'M', strides[1], 0, 0x86]);
    // requires_grad, hooks; call; a nested dictionary with a list, a float and an integer; attributes.
    p.extend(
        b"\x89h\x00)RtRX\x05\0\0\0extra}(X\x01\0\0\0a](K\x01G\0\0\0\0\0\0\0\0eX\x01\0\0\0b\x8a\x01\x07uu}b.",
    );
    p
}

fn torch(pickle: Vec<u8>) -> Vec<u8> {
    let members = [
        ("model/data.pkl", pickle),
        ("model/byteorder", b"little".to_vec()),
        ("model/data/0", le(&[9.0, 1.0, -2.0, 3.5, 0.0, 1e-9, 7.0])),
    ];
    zip(CompressionMethod::Stored, &members)
}

const FLOATS: &str = "torch\nFloatStorage";

fn tensor(shape: &[usize], data: &[f32]) -> Tensor<'static> {
    Tensor { shape: shape.to_vec(), data: Cow::Owned(data.to_vec()) }
}

#[test]
fn npz_arrays_of_every_header_version_are_read() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let scratch = Scratch::new(&format!("npz-{method}"), &npz(method));
        let source = scratch.open().unwrap();
        assert_eq!(source.names().collect::<Vec<_>>(), ["ids", "layer.bias", "layer.weight", "scalar"]);
        assert_eq!(source.tensor("layer.weight").unwrap(), tensor(&[2, 3], &MATRIX));
        assert_eq!(source.tensor("layer.bias").unwrap(), tensor(&[2], &[0.5, -8.0]));
        assert_eq!(source.tensor("scalar").unwrap(), tensor(&[], &[4.0]));
    }
}

#[test]
fn safetensors_are_borrowed_or_widened_to_f32() {
    let scratch = Scratch::new("safetensors", &safetensors());
    let source = scratch.open().unwrap();
    let weight = source.tensor("weight").unwrap();
    assert_eq!(weight, tensor(&[2, 3], &MATRIX));
    assert!(matches!(weight.data, Cow::Borrowed(_)), "aligned floats are not copied");
    assert_eq!(source.tensor("half").unwrap(), tensor(&[2], &[1.0, -2.0]));
    assert_eq!(source.tensor("brain").unwrap(), tensor(&[2, 1], &[1.0, -2.0]));
    assert_eq!(source.shape("brain"), Some(&[2, 1][..]));
    assert!(source.contains("ids") && !source.contains("idz") && source.shape("idz").is_none());
}

#[test]
fn unaligned_safetensors_are_copied() {
    let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    for padding in 0..4 {
        let mut bytes = (header.len() as u64 + padding).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(vec![b' '; padding as usize]);
        bytes.extend(le(&[1.5, 2.5]));
        let scratch = Scratch::new(&format!("unaligned-{padding}"), &bytes);
        assert_eq!(scratch.open().unwrap().tensor("w").unwrap(), tensor(&[2], &[1.5, 2.5]));
    }
}

#[test]
fn a_torch_state_dictionary_is_read() {
    let scratch = Scratch::new("torch", &torch(pickle(FLOATS, 7, 1, [2, 3], [3, 1])));
    let source = scratch.open().unwrap();
    assert_eq!(source.names().collect::<Vec<_>>(), ["w"]);
    assert_eq!(source.tensor("w").unwrap(), tensor(&[2, 3], &MATRIX));
}

#[test]
fn what_holds_no_floats_is_listed_and_refused_by_name() {
    let files = [("safetensors", safetensors(), "I64"), ("npz", npz(CompressionMethod::Stored), "<i8")];
    for (kind, content, dtype) in files {
        let scratch = Scratch::new(&format!("dtype-{kind}"), &content);
        let source = scratch.open().unwrap();
        assert!(source.contains("ids"));
        let message = source.tensor("ids").unwrap_err().to_string();
        let words = ["weights.bin", "`ids`", dtype, "not floats", "F32"];
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn an_unknown_name_is_an_error_that_names_it() {
    let scratch = Scratch::new("unknown", &safetensors());
    let message = scratch.open().unwrap().tensor("nothing").unwrap_err().to_string();
    assert!(message.contains("`nothing`") && message.contains("weights.bin"), "{message}");
}

#[test]
fn a_fortran_array_is_refused() {
    let array = npy(1, &header("<f4", "True", "(2, 3)"), &le(&MATRIX));
    let message = Scratch::new("fortran", &[]).refusal(&zip(CompressionMethod::Stored, &[("w.npy", array)]));
    assert!(message.contains("`w`") && message.contains("Fortran"), "{message}");
}

#[test]
fn a_shape_that_does_not_fit_its_data_is_refused() {
    let scratch = Scratch::new("misfit", &[]);
    for shape in ["(2, 4)", "(5,)", "(4294967296, 4294967296, 4)", "(18446744073709551615, 2)"] {
        let array = npy(1, &header("<f4", "False", shape), &le(&MATRIX));
        let message = scratch.refusal(&zip(CompressionMethod::Stored, &[("w.npy", array)]));
        assert!(message.contains("`w`") && message.contains("does not fit"), "{message}");
    }
}

#[test]
fn an_archive_that_unpacks_without_bound_is_refused() {
    let zeros = npy(1, &header("<f4", "False", "(1000000,)"), &vec![0; 4_000_000]);
    let message = Scratch::new("bomb", &[]).refusal(&zip(CompressionMethod::Deflated, &[("w.npy", zeros)]));
    assert!(message.contains("store it uncompressed"), "{message}");
}

#[test]
fn torch_tensors_that_are_not_plain_floats_in_their_storage_are_refused() {
    let scratch = Scratch::new("torch-refused", &[]);
    let cases = [
        (pickle("torch\nLongStorage", 7, 1, [2, 3], [3, 1]), "torch.LongStorage"),
        (pickle("os\nsystem", 7, 1, [2, 3], [3, 1]), "os.system"),
        (pickle(FLOATS, 7, 1, [2, 3], [1, 2]), "contiguous"),
        (pickle(FLOATS, 7, 1, [2, 3], [0, 1]), "contiguous"),
        (pickle(FLOATS, 7, 2, [2, 3], [3, 1]), "does not fit storage 0"),
        (pickle(FLOATS, 7, 0, [2, 4], [4, 1]), "does not fit storage 0"),
        (pickle(FLOATS, 8, 1, [2, 3], [3, 1]), "storage 0 does not hold 8 floats"),
        (b"\x80\x02}.".to_vec(), "no tensors"),
        (b"\x80\x02K\x01.".to_vec(), "state_dict"),
        (b"\x80\x02i".to_vec(), "0x69"),
    ];
    for (pickle, reason) in cases {
        let message = scratch.refusal(&torch(pickle));
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn no_nesting_of_a_pickle_is_too_deep() {
    let mut deep = b"\x80\x02)".to_vec();
    deep.extend(vec![0x85; 1_000_000]);
    deep.push(b'.');
    let message = Scratch::new("deep", &[]).refusal(&torch(deep));
    assert!(message.contains("state_dict"), "{message}");
}

fn samples() -> [(&'static str, Vec<u8>); 4] {
    [
        ("safetensors", safetensors()),
        ("npz", npz(CompressionMethod::Stored)),
        ("npz-deflated", npz(CompressionMethod::Deflated)),
        ("torch", torch(pickle(FLOATS, 7, 1, [2, 3], [3, 1]))),
    ]
}

#[test]
fn a_file_cut_at_any_length_is_refused() {
    for (kind, content) in samples() {
        let scratch = Scratch::new(&format!("cut-{kind}"), &content);
        for length in 0..content.len() {
            scratch.refusal(&content[..length]);
        }
    }
}

#[test]
fn a_file_with_any_byte_changed_is_read_whole_or_refused() {
    for (kind, content) in samples() {
        let scratch = Scratch::new(&format!("changed-{kind}"), &content);
        for at in 0..content.len() {
            for flip in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff, content[at]] {
                let mut changed = content.clone();
                changed[at] ^= flip;
                scratch.write(&changed);
                let Ok(source) = scratch.open() else { continue };
                for tensor in source.names().filter_map(|name| source.tensor(name).ok()) {
                    assert_eq!(
                        tensor.data.len(),
                        tensor.shape.iter().product::<usize>(),
                        "{kind}, byte {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_published_accent_model_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/ruaccent/acc_model.pt");
    if !path.exists() {
        return eprintln!("SKIPPED: {} is not there", path.display());
    }
    let source = Source::open(&path).unwrap();
    assert_eq!(source.names().count(), 128);
    let embedding = source.tensor("embed.char_embed.weight").unwrap();
    assert_eq!(embedding.shape, [224, 256]);
    assert!(matches!(embedding.data, Cow::Borrowed(_)), "torch aligns its storages");
    for name in source.names() {
        assert!(source.tensor(name).unwrap().data.iter().all(|v| v.is_finite()), "{name}");
    }
}
