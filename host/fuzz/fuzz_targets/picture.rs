//! libFuzzer on [`ferrowarp_fuzz::picture`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::picture(bytes);
});
