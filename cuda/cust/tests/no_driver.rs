//! A program that uses the driver starts without a driver and says what is missing.
//!
//! One test, since the environment and the loaded library belong to the whole process.

use cust::sys::{self, CUresult};

#[test]
fn without_a_driver_calls_are_errors() {
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, "/nowhere/libcuda.so.1") };

    let mut count = 0;
    // SAFETY: the out parameter is valid for a write.
    let before = unsafe { sys::cuDeviceGetCount(&mut count) };
    assert_eq!(before, CUresult::CUDA_ERROR_STUB_LIBRARY);

    let error = cust::quick_init().expect_err("there is no such library");
    assert!(error.to_string().contains("no CUDA driver library is loaded"), "{error}");

    let error = cust::load().unwrap_err();
    assert_eq!(error.library(), "/nowhere/libcuda.so.1");
    let text = error.to_string();
    assert!(text.contains("/nowhere/libcuda.so.1"), "{text}");
    assert!(text.contains("No such file or directory"), "{text}");
    assert!(text.contains("install the NVIDIA driver"), "{text}");
    assert_eq!(cust::load().unwrap_err().to_string(), text);

    assert_eq!(
        CUresult::CUDA_ERROR_STUB_LIBRARY.to_string(),
        format!("CUDA_ERROR_STUB_LIBRARY (34): no CUDA driver library is loaded: {text}")
    );
}
