//! libFuzzer on [`ferrowarp_fuzz::ptxas`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::ptxas(bytes);
});
