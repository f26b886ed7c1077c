//! libFuzzer on [`ferrowarp_fuzz::csv`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::csv(bytes);
});
