//! libFuzzer on [`ferrowarp_fuzz::weights`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ferrowarp_fuzz::weights(bytes);
});
