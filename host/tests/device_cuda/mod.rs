//! The CUDA device against a driver without a GPU: finding it, loading PTX, launching, copying, failing.
//!
//! Each test runs in a process of its own, since driver, environment and a broken context belong to the process.

mod attach;
mod cluster;
mod cooperative;
mod faults;
mod graphs;
mod hangs;
mod soundness;
mod stack;
mod streams;
mod timing;
mod unified;
mod versions;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

use cuda_std::kernel;
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher, Residence};
use cust::error::CudaError;
use ferrowarp::device::{Buffer, Device, DeviceChoice, DeviceError, FaultKind, PtxModules, Stream, open};

/// Present in the environment of a test's own process.
const CHILD: &str = "FERROWARP_TEST_CHILD";

const PTX: &str = "\
.version 8.6
.target sm_90
.address_size 64
.visible .global .align 8 .u64 __ferrowarp_panic_slot;
.visible .entry fill(.param .u64 a, .param .u64 b, .param .f32 c) { ret; }
.visible .entry in_clusters(.param .u64 a) { ret; }
.visible .entry meeting(.param .u64 a) { ret; }
.visible .entry on_the_cpu() { ret; }
.visible .entry shared_hungry() { ret; }
.visible .entry broken() { trap; }
";

/// # Safety
/// `out` holds `len` elements.
#[kernel]
pub unsafe fn fill(out: *mut f32, len: usize, value: f32) {
    for i in 0..len {
        // SAFETY: in bounds by the contract.
        unsafe { out.add(i).write(value) };
    }
}

/// # Safety
/// None.
#[kernel]
pub unsafe fn shared_hungry() {}

/// # Safety
/// None.
#[kernel]
pub unsafe fn broken() {}

/// # Safety
/// None.
#[kernel]
pub unsafe fn not_in_the_ptx() {}

/// # Safety
/// None.
#[kernel(cpu_only)]
pub unsafe fn on_the_cpu() {}

/// Queues `fill` of the whole buffer.
fn fill_all(on: &impl Launcher, buffer: &mut Buffer<f32>, value: f32) -> Result<(), LaunchError> {
    let len = buffer.len();
    // SAFETY: as many elements as the buffer has.
    unsafe { fill::launch(on, LaunchConfig::new(1, 32), buffer, len, value) }
}

/// Runs `body` in a process of its own, in which the driver is the fake one, or `driver` if that is given, and
/// `FERROWARP_PTX` names a folder that `prepare` has filled.
fn isolated(
    test: &str,
    driver: Option<&str>,
    devices: &str,
    prepare: impl FnOnce(&Path),
    body: impl FnOnce(),
) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let output = child(test, driver, devices, prepare, &[]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Runs a test of this program in a process of its own, with these variables besides.
fn child(
    test: &str,
    driver: Option<&str>,
    devices: &str,
    prepare: impl FnOnce(&Path),
    variables: &[(&str, &str)],
) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let library: OsString = match driver {
        Some(path) => path.into(),
        None => crate::driver::build_fake_driver(folder.path()).into(),
    };
    let ptx = folder.path().join("ptx");
    std::fs::create_dir(&ptx).unwrap();
    prepare(&ptx);
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("device_cuda::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .env("FERROWARP_LIBCUDA", library)
        .env("FERROWARP_PTX", ptx)
        .env("FAKE_CUDA_DEVICES", devices)
        .env_remove("CUDA_LAUNCH_BLOCKING")
        .env_remove("FERROWARP_SYNC")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn good_ptx(folder: &Path) {
    std::fs::write(folder.join("kernels.compute_90.ptx"), PTX).unwrap();
}

fn no_ptx(_: &Path) {}

fn error_of<T>(result: Result<T, DeviceError>) -> DeviceError {
    result.map(|_| ()).unwrap_err()
}

#[test]
fn no_driver() {
    isolated("no_driver", Some("/nowhere/libcuda.so.1"), "1", good_ptx, || {
        assert!(!open(DeviceChoice::Cpu).unwrap().0.is_cuda());
        // The environment names the library, so that a CPU would not be what was meant.
        for choice in [DeviceChoice::Auto, DeviceChoice::Cuda] {
            let error = error_of(open(choice));
            assert!(matches!(error, DeviceError::NoDriver(_)));
            let text = "library /nowhere/libcuda.so.1, which FERROWARP_LIBCUDA names, failed: ";
            assert!(error.to_string().contains(text), "{error}");
        }
    });
}

#[test]
fn no_gpu() {
    isolated("no_gpu", None, "0", good_ptx, || {
        let (device, line) = open(DeviceChoice::Auto).unwrap();
        assert!(!device.is_cuda());
        assert!(line.ends_with("the CUDA driver sees no GPU"), "{line}");
        assert!(matches!(error_of(open(DeviceChoice::Cuda)), DeviceError::NoDevice { ordinal: 0, count: 0 }));
    });
}

#[test]
fn a_gpu_and_no_ptx() {
    isolated("a_gpu_and_no_ptx", None, "1", no_ptx, || {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cuda] {
            let error = error_of(open(choice));
            assert!(matches!(error, DeviceError::PtxMissing { .. }), "{error}");
            assert!(error.to_string().contains("cargo xtask build-ptx"), "{error}");
        }
        assert!(!open(DeviceChoice::Cpu).unwrap().0.is_cuda());
    });
}

#[test]
fn an_ordinal_that_is_not_there() {
    isolated("an_ordinal_that_is_not_there", None, "2", good_ptx, || {
        let modules = PtxModules::find().unwrap();
        assert!(Device::cuda_with(1, &modules).is_ok());
        let error = error_of(Device::cuda_with(2, &modules)).to_string();
        assert!(error.contains("no CUDA device 2: the driver sees 2"), "{error}");
    });
}

#[test]
fn modules_of_ones_own_are_added() {
    isolated("modules_of_ones_own_are_added", None, "1", good_ptx, || {
        let text = b".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry own() { ret; }\n";
        let own = || PtxModules::embedded(&[("own.compute_90.ptx", text)]).unwrap();
        let device = Device::cuda(0).unwrap();
        let other = device.clone();
        let error = error_of(device.with_modules(own())).to_string();
        assert!(error.contains("it has other handles or buffers"), "{error}");
        let device = other.with_modules(own()).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        fill_all(&device, &mut buffer, 2.0).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
        drop((buffer, device));
        let twice = Device::cuda(0).unwrap().with_modules(own()).unwrap().with_modules(own());
        assert!(matches!(error_of(twice), DeviceError::KernelInTwoSets { .. }));
    });
}

#[test]
fn launches_and_copies() {
    isolated("launches_and_copies", None, "1", good_ptx, || {
        let (device, line) = open(DeviceChoice::Auto).unwrap();
        assert_eq!(line, "running on Fake GPU (CUDA device 0, compute capability 9.0, 132 multiprocessors)");
        assert!(device.is_cuda());
        assert_eq!(device.residence(), Residence::Cuda(0));
        assert_eq!(device.limits().max_dynamic_shared_bytes, 227 * 1024);

        let mut buffer = device.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        // SAFETY: the view has two elements.
        unsafe { fill::launch(&device, LaunchConfig::new(1, 32), buffer.view_mut(1..3).unwrap(), 2, 7.5) }
            .unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1.0, 7.5, 7.5, 4.0]);
        let from_another_thread = std::thread::scope(|scope| scope.spawn(|| buffer.to_vec()).join().unwrap());
        assert_eq!(from_another_thread.unwrap().len(), 4);

        let mut empty = device.alloc_zeroed::<f32>(0).unwrap();
        // SAFETY: no elements are written.
        unsafe { fill::launch(&device, LaunchConfig::new(1, 1), &mut empty, 0, 0.0) }.unwrap();
        assert_eq!(device.alloc_zeroed::<u64>(5).unwrap().to_vec().unwrap(), [0; 5]);
        let full = error_of(device.alloc_zeroed::<u16>(1 << 40));
        assert!(matches!(full, DeviceError::OutOfMemory { elements, .. } if elements == 1 << 40));
        let text = "allocating 1099511627776 elements of 2 bytes on Fake GPU failed: CUDA_ERROR_OUT_OF_MEMORY (2): \
                    out of memory; 1024 of 2048 MiB are free; use smaller batches";
        assert!(full.to_string().starts_with(text), "{full}");

        let times = device.transfer_times();
        assert_eq!((times.host_to_device.bytes, times.device_to_host.copies), (16, 3));
    });
}

#[test]
fn launches_that_are_refused() {
    isolated("launches_that_are_refused", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let cpu = Device::cpu();
        let mut on_cpu = cpu.alloc_zeroed::<f32>(4).unwrap();
        let mut on_gpu = device.alloc_zeroed::<f32>(4).unwrap();
        let config = LaunchConfig::new(1, 32);

        // SAFETY: four elements; the launch is refused for where they live.
        let error = unsafe { fill::launch(&device, config, &mut on_cpu, 4, 0.0) }.unwrap_err();
        let text = "argument `out` lives in the memory of the CPU, the launch is on CUDA device 0";
        assert!(error.to_string().contains(text), "{error}");
        // SAFETY: as above.
        let error = unsafe { fill::launch(&cpu, config, &mut on_gpu, 4, 0.0) }.unwrap_err();
        assert!(matches!(error, LaunchError::WrongDevice { argument: "out", .. }), "{error}");

        // SAFETY: the kernels do nothing.
        let error = unsafe { not_in_the_ptx::launch(&device, config) }.unwrap_err().to_string();
        assert!(
            error.contains("no kernel not_in_the_ptx") && error.contains("cargo xtask build-ptx"),
            "{error}"
        );
        // SAFETY: as above. The driver says that this kernel's registers allow 512 threads.
        let error = unsafe { shared_hungry::launch(&device, LaunchConfig::new(1, 513)) }.unwrap_err();
        assert!(matches!(error, LaunchError::TooManyThreads { got: 513, max: 512, .. }), "{error}");

        // Static shared memory of the kernel is 1 KiB; over 47 KiB of dynamic memory needs the driver's grant.
        for bytes in [1000, 47 * 1024 + 1, 226 * 1024, 2000] {
            // SAFETY: as above.
            unsafe { shared_hungry::launch(&device, config.with_shared_bytes(bytes)) }.unwrap();
        }
        // SAFETY: as above.
        let error =
            unsafe { shared_hungry::launch(&device, config.with_shared_bytes(226 * 1024 + 1)) }.unwrap_err();
        assert!(matches!(error, LaunchError::TooMuchShared { got: 232_449, max: 232_448, .. }), "{error}");
        device.synchronize().unwrap();
    });
}

/// Even where some PTX has a kernel of the name.
#[test]
fn a_kernel_for_the_cpu_is_refused() {
    isolated("a_kernel_for_the_cpu_is_refused", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let config = LaunchConfig::new(1, 32);
        assert!(!device.limits().runs_cpu_only && Device::cpu().limits().runs_cpu_only);
        let text = "launch of on_the_cpu failed: it is a kernel for the CPU executor only and has no PTX; launch it on the CPU, or launch another kernel";
        // SAFETY: the kernel does nothing.
        let error = unsafe { on_the_cpu::launch(&device, config) }.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error_of(device.resident_blocks(on_the_cpu::META, &config)).to_string(), text);
        // SAFETY: as above.
        unsafe { on_the_cpu::launch(&Device::cpu(), config) }.unwrap();
        device.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_that_panics() {
    isolated("a_kernel_that_panics", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let buffer = device.upload(&[1.0f32]).unwrap();
        device.synchronize().unwrap();
        // SAFETY: the kernel has no contract.
        unsafe { broken::launch(&device, LaunchConfig::new(4, 128)) }.unwrap();
        let error = device.synchronize().unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel broken (grid (4, 1, 1), block (128, 1, 1), 0 bytes of dynamic shared memory, clusters of 1) \
             panicked in block (3, 1, 0), thread (64, 2, 1), at kernels/src/broken.rs:17:5: called on an empty list; \
             the driver says CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; fix the kernel or its input"
        );
        let DeviceError::KernelFault(fault) = error else { panic!("{error}") };
        assert_eq!(fault.culprit().unwrap().kernel, "broken");
        assert_eq!((fault.kind, fault.status), (FaultKind::Panic, CudaError::LaunchFailed));

        let later = [
            error_of(device.synchronize()),
            error_of(buffer.to_vec()),
            error_of(device.alloc_zeroed::<f32>(3)),
            // SAFETY: the kernel has no contract.
            unsafe { shared_hungry::launch(&device, LaunchConfig::new(1, 1)) }.unwrap_err().into(),
        ];
        for error in later.map(|error| error.to_string()) {
            assert!(error.contains("Fake GPU cannot be used any more"), "{error}");
            assert!(error.contains("called on an empty list"), "{error}");
        }
    });
}

#[test]
fn a_fault_among_several_kernels() {
    isolated("a_fault_among_several_kernels", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        // SAFETY: the buffer has four elements; `broken` has no contract.
        unsafe {
            fill::launch(&device, LaunchConfig::new(1, 32), &mut buffer, 4, 1.0).unwrap();
            broken::launch(&device, LaunchConfig::new(1, 1)).unwrap();
        }
        // The copy waits for the kernels, so it is the copy that reports.
        let error = error_of(buffer.to_vec()).to_string();
        assert!(error.starts_with("one of the queued kernels panicked in block"), "{error}");
        assert!(error.contains("queued: fill (grid (1, 1, 1), block (32, 1, 1)"), "{error}");
        assert!(error.contains("broken (grid (1, 1, 1)") && error.contains("FERROWARP_SYNC=1"), "{error}");
    });
}
