//! libFuzzer on [`ferrowarp_fuzz::ir`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::ir(bytes);
});
