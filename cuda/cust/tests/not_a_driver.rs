//! A library that is no driver is refused by name.
//!
//! One test, since the environment and the loaded library belong to the whole process.

#[test]
#[cfg(target_os = "linux")]
fn a_library_without_cu_init_is_refused() {
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, "libc.so.6") };
    let error = cust::load().unwrap_err().to_string();
    assert!(error.contains("libc.so.6 is not a CUDA driver library"), "{error}");
    assert!(error.contains("cuInit"), "{error}");
}
