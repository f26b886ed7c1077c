//! libFuzzer on [`ferrowarp_fuzz::checkpoint`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::checkpoint(bytes);
});
