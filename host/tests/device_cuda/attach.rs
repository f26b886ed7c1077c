//! A device in a context that another library created.

use std::ptr;

use cuda_std::launch::Residence;
use ferrowarp::device::{Device, DeviceError, PtxModules};

use super::{CHILD, PTX, child, error_of, fill_all, good_ptx, isolated};

/// The fake driver's context that is not a primary one.
const CREATED: usize = 0x1100;

/// Attaches to the context at this address.
fn attach(context: usize) -> Result<Device, DeviceError> {
    // SAFETY: the fake driver's context is never destroyed, and it knows what is no context.
    unsafe { Device::attach(ptr::without_provenance_mut(context)) }
}

#[test]
fn a_device_in_anothers_context_leaves_the_primary_context_alone() {
    let name = "attach::a_device_in_anothers_context_leaves_the_primary_context_alone";
    if std::env::var_os(CHILD).is_some() {
        let own: &'static str = PTX.replace(".entry ", ".entry my_").leak();
        let own = PtxModules::embedded(&[("mine.compute_90.ptx", own.as_bytes())]).unwrap();
        let device = attach(CREATED).unwrap().with_modules(own).unwrap();
        assert_eq!(device.residence(), Residence::Cuda(1));
        assert_eq!(device.raw_context().map(|context| context.addr()), Some(CREATED));
        let stream = device.stream().unwrap();
        let mut buffer = device.upload(&[1.0f32; 5]).unwrap();
        fill_all(&stream, &mut buffer, 2.0).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [2.0; 5]);
        return;
    }
    let output = child(name, None, "2", good_ptx, &[("FAKE_CUDA_TRACE", "1")]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(text.contains("fake driver, in order: ") && !text.contains(" context"), "{text}");
}

#[test]
fn what_is_no_context_is_refused() {
    isolated("attach::what_is_no_context_is_refused", None, "1", good_ptx, || {
        for (context, says) in
            [(0, "CUDA_ERROR_INVALID_CONTEXT (201)"), (0x1234, "CUDA_ERROR_INVALID_VALUE (1)")]
        {
            let error = error_of(attach(context)).to_string();
            let starts = format!("attaching to the context {context:#x} (pass one that cuCtxCreate returned");
            assert!(error.starts_with(&starts) && error.contains(says), "{error}");
        }
    });
}

#[test]
fn a_context_without_a_driver() {
    isolated("attach::a_context_without_a_driver", Some("/nowhere/libcuda.so.1"), "1", good_ptx, || {
        let error = error_of(attach(CREATED));
        assert!(matches!(error, DeviceError::NoDriver(_)), "{error}");
        assert!(error.to_string().contains("install the NVIDIA driver"), "{error}");
    });
}
