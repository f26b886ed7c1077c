//! libFuzzer on [`ferrowarp_fuzz::idx_gzip`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::idx_gzip(bytes);
});
