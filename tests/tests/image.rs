//! Any bytes give a model or an error; what opens runs.

use picoformer::ModelFile;
use picoformer::convert;
use picoformer::vocab;
use picoformer_core::tokenize::{ADD_END, Specials};
use picoformer_core::{Config, Cpu, Error, Image, Line, Plan, image};
use picoformer_tests::small;

const TINY: Config = Config {
    d_model: 4,
    heads: 2,
    d_ff: 3,
    encoder_layers: 1,
    decoder_layers: 1,
    source_vocab: 5,
    target_vocab: 6,
    source_context: 4,
    target_context: 4,
    ..Config::PAPER
};

fn tiny() -> Vec<u8> {
    let blob = small::weights(&Plan::new(TINY).unwrap(), 1);
    let specials = Specials { end: Some(2), ..Specials::default() };
    let source = vocab::characters(&["a", "b", "</s>", "c", "d"], ADD_END, specials);
    let target = vocab::characters(&["x", "y", "</s>", "z"], 0, specials);
    convert::image(&TINY, "tiny", &blob, &source, &target)
}

/// The bytes at an aligned address, and `shift` beyond it.
fn aligned(bytes: &[u8], shift: usize, f: impl FnOnce(&[u8])) {
    let mut room = vec![0; bytes.len() + 128];
    let start = (64 - room.as_ptr() as usize % 64) % 64 + shift;
    room[start..start + bytes.len()].copy_from_slice(bytes);
    f(&room[start..start + bytes.len()]);
}

/// Opens an image and, if it opens, runs what it can.
fn try_everything(bytes: &[u8]) -> Result<(), Error> {
    let image = Image::parse(bytes)?;
    let model = image.model();
    if model.plan().arena() > 1 << 20 {
        return Ok(());
    }
    let mut arena = vec![Line::ZERO; model.plan().arena()];
    let mut session = model.session(&mut arena, Cpu::detect())?;
    let mut tokens = [0; 4];
    if let Some(tokenizer) = image.source_tokenizer() {
        let length = tokenizer.encode("abc", &mut tokens).map_or(0, |e| e.len);
        let _ = session.encode(&[&tokens[..length]]);
    }
    let mut generated = Vec::new();
    let _ = session.generate(5, |_, token| generated.push(token));
    if let Some(tokenizer) = image.target_tokenizer() {
        let _ = tokenizer.decode(&generated, &mut [0; 64]);
    }
    Ok(())
}

#[test]
fn an_image_keeps_its_configuration_name_weights_and_tokenizers() {
    let file = ModelFile::from_bytes(&tiny()).unwrap();
    let image = file.image().unwrap();
    image.verify().unwrap();
    assert_eq!((image.name(), *image.model().plan().config()), ("tiny", TINY));
    assert_eq!(image.source_tokenizer().unwrap().vocab(), 5);
    assert_eq!(image.target_tokenizer().unwrap().vocab(), 4);
    aligned(&tiny(), 0, |bytes| try_everything(bytes).unwrap());
}

#[test]
fn every_truncation_is_an_error() {
    let whole = tiny();
    for length in 0..whole.len() {
        aligned(&whole[..length], 0, |bytes| {
            assert!(matches!(try_everything(bytes), Err(Error::Image(_))), "cut to {length}");
        });
    }
}

#[test]
fn every_changed_byte_is_an_error_or_runs_and_the_checksum_tells() {
    let whole = tiny();
    for at in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            aligned(&bytes, 0, |bytes| {
                if try_everything(bytes).is_ok() {
                    assert_eq!(Image::parse(bytes).unwrap().verify(), Err(Error::Checksum), "byte {at}");
                }
            });
        }
    }
}

#[test]
fn a_misaligned_image_is_refused_not_a_fault() {
    for shift in 1..64 {
        aligned(&tiny(), shift, |bytes| assert!(matches!(Image::parse(bytes), Err(Error::Image(_)))));
    }
}

#[test]
fn an_image_in_a_section_of_its_own_opens_where_it_lies() {
    #[repr(C, align(4096))]
    struct Page<T: ?Sized>(T);
    #[unsafe(link_section = ".model")]
    static MODEL: Page<[u8; include_bytes!("../../std-bindings/models/g2p-en/g2p-en.pf").len()]> =
        Page(*include_bytes!("../../std-bindings/models/g2p-en/g2p-en.pf"));

    assert_eq!(MODEL.0.as_ptr().addr() % 4096, 0);
    Image::parse(&MODEL.0).unwrap().verify().unwrap();
}

#[test]
fn another_version_is_refused_with_its_number() {
    let mut bytes = tiny();
    bytes[8] = 99;
    aligned(&bytes, 0, |bytes| {
        assert_eq!(Image::parse(bytes).map(|_| ()), Err(Error::Version { found: 99 }));
        assert!(Error::Version { found: 99 }.to_string().contains(&image::VERSION.to_string()));
    });
}

#[test]
fn sizes_from_the_file_are_checked_before_they_are_used() {
    for at in [16, 32, 40, 48] {
        for size in [0, 1, 63, 64, u64::MAX, u64::MAX - 63, 1 << 40] {
            let mut bytes = tiny();
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(size));
            aligned(&bytes, 0, |bytes| {
                let _ = try_everything(bytes);
            });
        }
    }
    // Each word of the configuration, at its extremes.
    for word in 0..29 {
        for value in [0, 1, 2, 3, 4, 7, 8, 1 << 24, u32::MAX, 1 << 31] {
            let mut bytes = tiny();
            bytes[56 + 4 * word..60 + 4 * word].copy_from_slice(&u32::to_le_bytes(value));
            aligned(&bytes, 0, |bytes| {
                let _ = try_everything(bytes);
            });
        }
    }
}

#[test]
fn random_bytes_are_no_image() {
    for seed in 0..200 {
        let noise: Vec<u8> =
            picoformer_tests::numbers(seed, 1000).iter().map(|x| (x * 255.0) as u8).collect();
        let mut bytes = tiny();
        let at = 56 + seed as usize % 200;
        bytes[at..at + 100].copy_from_slice(&noise[..100]);
        aligned(&bytes, 0, |bytes| {
            let _ = try_everything(bytes);
        });
        aligned(&noise, 0, |bytes| assert!(try_everything(bytes).is_err()));
    }
}
