//! The functions are those of the library that `FERROWARP_LIBCUDA` names, arguments and results unharmed.
//!
//! One test, since the environment and the loaded library belong to the whole process.

mod support;

use cust::error::CudaError;
use cust::sys::{self, CUresult};
use cust::tensor::{TensorDataType, TensorMapParameters, TensorSwizzle};

#[test]
fn calls_reach_the_loaded_driver() {
    let directory = tempfile::tempdir().unwrap();
    let library = support::build_fake_driver(directory.path());
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, &library) };

    // The first call loads the driver.
    let context = cust::quick_init().expect("the fake driver has a device");
    assert_eq!(cust::device::Device::get_device(0).unwrap().name().unwrap(), "Fake GPU");
    assert_eq!(cust::CudaApiVersion::get().unwrap().major(), 12);
    drop(context);

    let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(|| cust::load().unwrap())).collect();
    for thread in threads {
        let driver = thread.join().unwrap();
        assert_eq!(driver.library(), library);
        assert!(driver.functions_found() > 20, "{}", driver.functions_found());
    }

    // A function that the library lacks answers as one without a driver does, with other words.
    let mut left_over = 0;
    // SAFETY: the out parameter is valid; the fake driver has no such function, so nothing is written.
    let code = unsafe { sys::cuCtxGetFlags(&mut left_over) };
    assert_eq!(code, CUresult::CUDA_ERROR_STUB_LIBRARY);
    assert!(
        code.to_string().ends_with("libfakecuda.so lacks the function; update the NVIDIA driver"),
        "{code}"
    );

    // Eleven arguments: on x86-64 five of them travel on the stack, on aarch64 three.
    let mut sum = 0u32;
    // SAFETY: for a null function the fake driver only adds the arguments up and writes to the last one.
    let status = unsafe {
        sys::cuLaunchKernel(
            std::ptr::null_mut(),
            1,
            10,
            100,
            1_000,
            10_000,
            100_000,
            1_000_000,
            std::ptr::without_provenance_mut(10_000_000),
            std::ptr::without_provenance_mut(7),
            (&raw mut sum).cast(),
        )
    };
    assert_eq!(sum, 87_654_321 + 7);

    // A code no enum knows survives, with words instead of a name.
    assert_eq!(status, CUresult(4321));
    assert_eq!(status.to_string(), "an unknown CUDA error (4321)");
    // Twelve arguments, seven of them on the stack.
    let parameters = TensorMapParameters {
        data_type: TensorDataType::Bf16,
        address: 0x1230,
        sizes: &[100, 20],
        strides: &[256],
        tile: &[64, 8],
        swizzle: TensorSwizzle::Bytes128,
    };
    let words = [0x1230, 2, 9, 0, 3, 3, 0, 100, 20, 256, 64, 8, 0, 0, 0, 0];
    assert_eq!(parameters.encode().unwrap().words, words);
    let refused = TensorMapParameters { address: 8, ..parameters };
    assert_eq!(refused.encode(), Err(CudaError::InvalidValue));
    let too_few = TensorMapParameters { strides: &[], ..parameters };
    assert_eq!(too_few.encode(), Err(CudaError::InvalidValue));

    assert_eq!(
        CUresult::CUDA_ERROR_NO_DEVICE.to_string(),
        "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
    );
}
