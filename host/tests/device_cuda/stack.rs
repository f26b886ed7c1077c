//! The stack of the device's threads, and what is said when one may have overflowed.

use super::*;

/// # Safety
/// None.
#[kernel]
pub unsafe fn descends() {}

/// The usual module, with a kernel whose stack has no size known in advance.
fn with_note(folder: &Path) {
    let text = format!(
        "{PTX}.visible .entry descends() {{ ret; }}\n\
         // ferrowarp: unbounded stack: descends: recursion through `descend`\n"
    );
    std::fs::write(folder.join("kernels.compute_90.ptx"), text).unwrap();
}

/// The device's error for an overflow.
fn overflow(device: &Device) -> String {
    // SAFETY: the kernel has no contract.
    let launched = unsafe { descends::launch(device, LaunchConfig::new(1, 32)) };
    let error = error_of(launched.map_err(DeviceError::from).and_then(|()| device.synchronize()));
    let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(fault.stack.as_ref().map(|stack| &*stack.cause), Some("recursion through `descend`"));
    error.to_string()
}

/// Runs the test `name` again in a process of its own, with these variables.
fn again(name: &str, variables: &[(&str, &str)]) {
    let output = child(&format!("stack::{name}"), None, "1", with_note, variables);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_module_with_an_unbounded_stack_gets_more_and_an_overflow_is_named() {
    isolated(
        "stack::a_module_with_an_unbounded_stack_gets_more_and_an_overflow_is_named",
        None,
        "1",
        with_note,
        || {
            let text = overflow(&open(DeviceChoice::Cuda).unwrap().0);
            assert!(text.contains("a stack overflow may be the cause: the stack of descends"), "{text}");
            assert!(text.contains("each thread has 8192 bytes of it"), "{text}");
        },
    );
}

#[test]
fn the_size_that_is_asked_for_stays() {
    isolated("stack::the_size_that_is_asked_for_stays", None, "1", with_note, || {
        let device = open(DeviceChoice::Cuda).unwrap().0.with_stack_bytes(2048).unwrap();
        let text = overflow(&device);
        assert!(text.contains("each thread has 2048 bytes of it"), "{text}");
    });
}

#[test]
fn the_environment_sets_the_size() {
    let name = "the_environment_sets_the_size";
    if std::env::var_os(CHILD).is_none() {
        return again(name, &[("FERROWARP_STACK_BYTES", "4096")]);
    }
    let text = overflow(&open(DeviceChoice::Cuda).unwrap().0);
    assert!(text.contains("each thread has 4096 bytes of it"), "{text}");
}

#[test]
fn a_size_that_is_no_number_or_refused_is_an_error() {
    let name = "a_size_that_is_no_number_or_refused_is_an_error";
    if std::env::var_os(CHILD).is_none() {
        again(name, &[("FERROWARP_STACK_BYTES", "much")]);
        return again(name, &[("FERROWARP_STACK_BYTES", "65536"), ("FAKE_CUDA_STACK", "10000")]);
    }
    let error = error_of(open(DeviceChoice::Cuda).map(drop));
    let text = error.to_string();
    let refused = text.contains("a stack of 65536 bytes for each thread was refused");
    assert!(
        refused || text.contains("FERROWARP_STACK_BYTES is `much`; set it to a number of bytes"),
        "{text}"
    );
}
