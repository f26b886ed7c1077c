//! Every fault, wherever the driver may report it: its type and text, that it stays, and that the drops are quiet.

use cust::sys::CUresult;

use super::*;

/// The kinds of fault, with their codes and what their text says.
const FAULTS: &[(i32, FaultKind, &str)] = &[
    (
        700,
        FaultKind::IllegalAddress,
        "accessed an invalid address; the driver says CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was \
         encountered",
    ),
    (
        716,
        FaultKind::MisalignedAddress,
        "accessed a misaligned address; the driver says CUDA_ERROR_MISALIGNED_ADDRESS (716)",
    ),
    (
        717,
        FaultKind::WrongAddressSpace,
        "in the wrong address space; the driver says CUDA_ERROR_INVALID_ADDRESS_SPACE (717)",
    ),
    (718, FaultKind::InvalidPc, "invalid instruction address; the driver says CUDA_ERROR_INVALID_PC (718)"),
    (714, FaultKind::Stack, "its call stack; the driver says CUDA_ERROR_HARDWARE_STACK_ERROR (714)"),
    (
        715,
        FaultKind::IllegalInstruction,
        "illegal instruction; the driver says CUDA_ERROR_ILLEGAL_INSTRUCTION (715)",
    ),
    (
        719,
        FaultKind::Trap,
        "trapped; the driver says CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure",
    ),
    (710, FaultKind::Assert, "failed an assertion; the driver says CUDA_ERROR_ASSERT (710)"),
    (
        702,
        FaultKind::Watchdog,
        "than the driver's watchdog allows; the driver says CUDA_ERROR_LAUNCH_TIMEOUT (702)",
    ),
    (721, FaultKind::Other, "failed; the driver says CUDA_ERROR_TENSOR_MEMORY_LEAK (721)"),
    (
        214,
        FaultKind::Hardware,
        "Fake GPU reported a hardware error; the driver says CUDA_ERROR_ECC_UNCORRECTABLE (214)",
    ),
    (
        220,
        FaultKind::Hardware,
        "Fake GPU reported a hardware error; the driver says CUDA_ERROR_NVLINK_UNCORRECTABLE (220)",
    ),
    (
        226,
        FaultKind::Hardware,
        "Fake GPU reported a hardware error; the driver says CUDA_ERROR_CONTAINED (226)",
    ),
    (4, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_DEINITIALIZED (4)"),
    (46, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_DEVICE_UNAVAILABLE (46)"),
    (100, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_NO_DEVICE (100)"),
    (201, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_INVALID_CONTEXT (201)"),
    (709, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_CONTEXT_IS_DESTROYED (709)"),
    (810, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_MPS_CLIENT_TERMINATED (810)"),
    (911, FaultKind::DeviceLost, "Fake GPU was lost; the driver says CUDA_ERROR_EXTERNAL_DEVICE (911)"),
    (
        999,
        FaultKind::DeviceLost,
        "Fake GPU was lost; the driver says CUDA_ERROR_UNKNOWN (999): unknown error",
    ),
];

/// Where the fault is put in, after the calls of opening; and whether the launch is then queued and not waited for.
const PLACES: &[(&str, bool)] = &[
    ("alloc 2", false),
    ("set 1", false),
    ("launch 1", true),
    ("kernel 1", true),
    ("sync 2", true),
    ("copy 2", false),
    ("free 1", false),
];

/// The variables with which a child knows what to expect.
const EXPECTED: &str = "FERROWARP_TEST_EXPECTED";

/// What the program does with the device; the first error.
fn work(device: &Device) -> Result<(), DeviceError> {
    let mut buffer = device.alloc_zeroed::<f32>(4)?;
    // SAFETY: the buffer has four elements.
    unsafe { fill::launch(device, LaunchConfig::new(2, 96).with_shared_bytes(64), &mut buffer, 4, 1.0) }?;
    buffer.to_vec()?;
    drop(buffer);
    device.synchronize()
}

/// Whatever is done with the device, it reports the first fault again.
fn is_told_again(device: &Device, kept: &mut Buffer<f32>, first: &str) {
    let config = LaunchConfig::new(1, 1);
    let later = [
        error_of(device.synchronize()),
        error_of(device.alloc_zeroed::<f32>(3)),
        error_of(kept.to_vec()),
        error_of(kept.copy_from(&[0.0; 4])),
        error_of(device.free_bytes()),
        error_of(device.time(|| Ok::<_, DeviceError>(()))),
        error_of(device.record((), |_, ()| Ok::<_, DeviceError>(()))),
        // SAFETY: the kernel has no contract.
        unsafe { shared_hungry::launch(device, config) }.unwrap_err().into(),
    ];
    for error in later {
        assert!(matches!(error, DeviceError::Faulted { .. }), "{error}");
        assert_eq!(error.fault().unwrap().to_string(), first);
        let text = format!(
            "Fake GPU cannot be used any more, because it failed before ({first}); restart the program"
        );
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn every_fault_is_told_wherever_it_appears() {
    if let Ok(expected) = std::env::var(EXPECTED) {
        return one_fault(&expected);
    }
    let name = "faults::every_fault_is_told_wherever_it_appears";
    let folder = tempfile::tempdir().unwrap();
    let driver = crate::driver::build_fake_driver(folder.path());
    for (i, &(code, ..)) in FAULTS.iter().enumerate() {
        for &(place, is_launched) in PLACES {
            let faults = format!("{place} {code}");
            let expected = format!("{i} {is_launched}");
            let variables = [("FAKE_CUDA_FAULTS", faults.as_str()), (EXPECTED, expected.as_str())];
            let output = child(name, driver.to_str(), "1", good_ptx, &variables);
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{faults}: {text}");
        }
    }
}

/// The child: the fault number so and so of the table, with or without a launch to blame.
fn one_fault(expected: &str) {
    let (number, is_launched) = expected.split_once(' ').unwrap();
    let (code, kind, says) = FAULTS[number.parse::<usize>().unwrap()];
    let (device, _) = open(DeviceChoice::Cuda).unwrap();
    let error = error_of(work(&device));
    let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
    assert_eq!((fault.kind, fault.status), (kind, CudaError::Driver(CUresult(code))), "{error}");
    let text = fault.to_string();
    assert!(text.contains(says), "{text}");
    let launch = "fill (grid (2, 1, 1), block (96, 1, 1), 64 bytes of dynamic shared memory, clusters of 1)";
    let is_blamed = is_launched == "true";
    assert_eq!(text.contains(launch), is_blamed, "{text}");
    if matches!(kind, FaultKind::Hardware | FaultKind::DeviceLost) {
        assert!(text.contains("checkpoint") && fault.culprit().is_none(), "{text}");
    } else {
        assert_eq!(fault.culprit().is_some(), is_blamed, "{text}");
    }
    drop(device);
}

#[test]
fn the_first_fault_stays_and_drops_are_quiet() {
    let name = "faults::the_first_fault_stays_and_drops_are_quiet";
    if std::env::var_os(EXPECTED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut kept = device.upload(&[1.0f32; 4]).unwrap();
        let empty = device.record((), |_, ()| Ok::<_, DeviceError>(())).unwrap();
        let first = error_of(work(&device));
        assert!(matches!(first, DeviceError::KernelFault(_)), "{first}");
        is_told_again(&device, &mut kept, &first.to_string());
        drop((kept, empty, device));
        return;
    }
    // The second copy is the upload's.
    for faults in ["kernel 1 700", "launch 1 719", "copy 3 214", "sync 4 999"] {
        let output = child(name, None, "1", good_ptx, &[("FAKE_CUDA_FAULTS", faults), (EXPECTED, "1")]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{faults}: {text}");
        assert!(!text.contains("panicked at"), "{faults}: {text}");
    }
}

#[test]
fn what_is_given_back_depends_on_the_fault() {
    let name = "faults::what_is_given_back_depends_on_the_fault";
    if std::env::var_os(EXPECTED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let _kept = device.upload(&[1.0f32; 4]).unwrap();
        let _ = work(&device);
        return;
    }
    // The kept buffer and the one of the work, the panic record, the context. A broken context takes the buffers with
    // it; of a lost device nothing is asked any more.
    for (faults, in_order, broken, context) in
        [("", 3, 0, 1), ("kernel 1 700", 0, 1, 1), ("kernel 1 214", 0, 1, 1), ("kernel 1 999", 0, 0, 0)]
    {
        let variables = [("FAKE_CUDA_FAULTS", faults), ("FAKE_CUDA_TRACE", "1"), (EXPECTED, "1")];
        let output = child(name, None, "1", good_ptx, &variables);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{faults}: {text}");
        let count = |what| text.matches(what).count();
        assert_eq!(count("in order: memory"), in_order, "{faults}: {text}");
        assert_eq!(count("broken: memory"), broken, "{faults}: {text}");
        assert_eq!(count(": the context"), context, "{faults}: {text}");
    }
}

#[test]
fn blocking_launches_name_the_one() {
    let name = "faults::blocking_launches_name_the_one";
    if std::env::var_os(EXPECTED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        for _ in 0..3 {
            // SAFETY: the buffer has four elements.
            unsafe { fill::launch(&device, LaunchConfig::new(1, 32), &mut buffer, 4, 1.0) }.unwrap();
        }
        // SAFETY: the kernel has no contract.
        let error = unsafe { broken::launch(&device, LaunchConfig::new(8, 128)) }.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("kernel broken (grid (8, 1, 1), block (128, 1, 1)"), "{text}");
        let error = DeviceError::from(error);
        assert_eq!(error.fault().unwrap().culprit().unwrap().kernel, "broken");
        return;
    }
    for variable in ["FERROWARP_SYNC", "CUDA_LAUNCH_BLOCKING"] {
        let output = child(name, None, "1", good_ptx, &[(variable, "1"), (EXPECTED, "1")]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{variable}: {text}");
    }
}

#[test]
fn a_variable_is_never_ignored() {
    let name = "faults::a_variable_is_never_ignored";
    if let Some(expected) = std::env::var_os(EXPECTED) {
        let is_of_gpu = std::env::var_os("FERROWARP_STACK_BYTES").is_some();
        for choice in [DeviceChoice::Cuda, DeviceChoice::Cpu].into_iter().take(if is_of_gpu { 1 } else { 2 })
        {
            let text = open(choice).map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(text, expected.to_str().unwrap(), "{choice}");
        }
        return;
    }
    let switch = |variable: &str, value: &str| {
        format!("{variable} is `{value}`; set it to 1 to wait for each launch or to 0, or unset it")
    };
    let mut cases = vec![("FERROWARP_STACK_BYTES", "", String::new())];
    let reason = "FERROWARP_STACK_BYTES is `big`; set it to a number of bytes, or unset it";
    cases.push(("FERROWARP_STACK_BYTES", "big", reason.to_owned()));
    for variable in ["FERROWARP_SYNC", "CUDA_LAUNCH_BLOCKING"] {
        cases.extend(["", "0", "1"].map(|value| (variable, value, String::new())));
        cases.extend(["yes", "true", "2", " 1"].map(|value| (variable, value, switch(variable, value))));
    }
    for (variable, value, expected) in cases {
        let output = child(name, None, "1", good_ptx, &[(variable, value), (EXPECTED, &expected)]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{variable}={value}: {text}");
    }
}

#[test]
fn errors_that_pass_leave_the_device_in_order() {
    let name = "faults::errors_that_pass_leave_the_device_in_order";
    if std::env::var_os(EXPECTED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let full = error_of(work(&device));
        let memory = Some((1 << 30, 1 << 31));
        assert!(
            matches!(&full, DeviceError::OutOfMemory { elements: 4, element_bytes: 4, memory: found, .. }
                if found.map(|found| (found.free, found.total)) == memory),
            "{full}"
        );
        assert!(full.to_string().contains("smaller batches"), "{full}");
        for (code, says) in
            [(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"), (2, "CUDA_ERROR_OUT_OF_MEMORY (2)")]
        {
            let error = error_of(work(&device));
            let DeviceError::TooManyResources { launch, needs, status } = &error else { panic!("{error}") };
            assert_eq!((launch.kernel, *status), ("fill", CudaError::Driver(CUresult(code))));
            assert_eq!(needs.unwrap().registers, 72);
            let text = error.to_string();
            let start = "launch of fill (grid (2, 1, 1), block (96, 1, 1), 64 bytes of dynamic shared memory, clusters \
                         of 1) failed: ";
            assert!(text.starts_with(start) && text.contains(says), "{text}");
            let needs = "the kernel needs 72 registers and 16 bytes of local memory a thread, 1024 bytes of static \
                         shared memory, and blocks of at most 512 threads; launch smaller blocks";
            assert!(text.contains(needs), "{text}");
        }
        let refused = error_of(work(&device)).to_string();
        assert!(refused.starts_with("launch of fill (grid (2, 1, 1)"), "{refused}");
        assert!(refused.ends_with("failed: CUDA_ERROR_INVALID_VALUE (1): invalid argument"), "{refused}");
        work(&device).unwrap();
        return;
    }
    let faults = "alloc 2 2; launch 1 701; launch 2 2; launch 3 1";
    let output = child(name, None, "1", good_ptx, &[("FAKE_CUDA_FAULTS", faults), (EXPECTED, "1")]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A folder with three modules: `fill`, `broken` and `shared_hungry`, each alone.
fn three_modules(folder: &Path) {
    for kernel in ["fill(.param .u64 a, .param .u64 b, .param .f32 c)", "broken()", "shared_hungry()"] {
        let head = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .global .align 8 .u64 __ferrowarp_panic_slot;\n";
        let name = kernel.split('(').next().unwrap();
        let text = format!("{head}.visible .entry {kernel} {{ ret; }}\n");
        std::fs::write(folder.join(format!("{name}.compute_90.ptx")), text).unwrap();
    }
}

const PANIC: &str = ", at kernels/src/broken.rs:17:5: called on an empty list";

#[test]
fn a_panic_is_named_by_the_next_call_whatever_it_does() {
    let name = "faults::a_panic_is_named_by_the_next_call_whatever_it_does";
    if let Ok(next) = std::env::var(EXPECTED) {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut unified = device.alloc_unified::<f32>(4).unwrap();
        // SAFETY: the kernel has no contract.
        unsafe { broken::launch(&device, LaunchConfig::new(8, 128)) }.unwrap();
        let config = LaunchConfig::new(1, 1);
        let error = match next.as_str() {
            // SAFETY: the kernel has no contract. Its module is not loaded yet.
            "load" => unsafe { shared_hungry::launch(&device, config) }.unwrap_err().into(),
            "resident" => error_of(device.resident_blocks(shared_hungry::META, &config)),
            "soil" => error_of(device.clone().with_soiled_memory()),
            "stream" => error_of(device.stream()),
            "unified" => error_of(unified.host_mut()),
            "record" => error_of(device.record((), move |stream, ()| {
                // SAFETY: the kernel has no contract.
                unsafe { shared_hungry::launch(stream, config) }
            })),
            _ => error_of(device.synchronize()),
        };
        let fault = error.fault().unwrap_or_else(|| panic!("{next}: {error}"));
        assert_eq!(fault.kind, FaultKind::Panic, "{next}: {error}");
        assert!(
            error.to_string().contains(PANIC) && !error.to_string().contains("rebuild"),
            "{next}: {error}"
        );
        return;
    }
    for next in ["load", "resident", "soil", "stream", "unified", "record", "synchronize"] {
        let output = child(name, None, "1", three_modules, &[(EXPECTED, next)]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{next}: {text}");
    }
}

#[test]
fn other_devices_of_the_gpu_name_the_kernel_that_ended_them() {
    isolated(
        "faults::other_devices_of_the_gpu_name_the_kernel_that_ended_them",
        None,
        "1",
        three_modules,
        || {
            let open = || open(DeviceChoice::Cuda).map(|(device, _)| device);
            let first = open().unwrap();
            let mut buffer = first.alloc_zeroed::<f32>(4).unwrap();
            fill_all(&first, &mut buffer, 1.0).unwrap();
            // The fake driver's kernels panic into the record of the last device.
            let (asked, failed) = (open().unwrap(), open().unwrap());
            // SAFETY: the kernel has no contract.
            unsafe { broken::launch(&failed, LaunchConfig::new(8, 128)) }.unwrap();
            // Opening is refused before any device has reported the failure, and after.
            let told = [
                error_of(open()),
                error_of(asked.stream()),
                error_of(first.synchronize()),
                error_of(failed.synchronize()),
            ];
            drop((buffer, first, asked, failed));
            for error in told.into_iter().chain([error_of(open())]) {
                let text = error.to_string();
                let fault = error.fault().unwrap_or_else(|| panic!("{text}"));
                assert_eq!(fault.culprit().map(|launch| launch.kernel), Some("broken"), "{text}");
                assert!(text.contains(PANIC), "{text}");
            }
        },
    );
}
