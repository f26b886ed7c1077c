//! libFuzzer on [`ferrowarp_fuzz::package`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::package(bytes);
});
