#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| picoformer_fuzz::c_calls(bytes));
