//! libFuzzer on [`ferrowarp_fuzz::ptx`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::ptx(bytes);
});
