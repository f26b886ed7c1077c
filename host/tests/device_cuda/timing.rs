//! Timing by events, and graphs: what is recorded runs when it is launched and not before, and fails as launches do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::*;

/// The driver's clock advances a millisecond for every kernel.
const KERNEL: Duration = Duration::from_millis(1);

fn fill_all(device: &Device, buffer: &mut Buffer<f32>, value: f32) -> Result<(), LaunchError> {
    let len = buffer.len();
    // SAFETY: as many elements as the buffer has.
    unsafe { fill::launch(device, LaunchConfig::new(1, 32), buffer, len, value) }
}

#[test]
fn events_time_the_work_and_nothing_before_it() {
    isolated("timing::events_time_the_work_and_nothing_before_it", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        fill_all(&device, &mut buffer, 1.0).unwrap();
        let work = || {
            (0..3).try_for_each(|i| fill_all(&device, &mut buffer, i as f32))?;
            Ok::<_, LaunchError>("the result")
        };
        let (result, time) = device.time(work).unwrap();
        assert_eq!((result, time), ("the result", 3 * KERNEL));
        assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);

        // SAFETY: the launch is refused.
        let refused = device.time(|| unsafe { not_in_the_ptx::launch(&device, LaunchConfig::new(1, 1)) });
        assert!(matches!(error_of(refused), DeviceError::NoSuchKernel { .. }));
        assert_eq!(device.l2_bytes().unwrap(), Some(50 << 20));
        assert_eq!(device.free_bytes().unwrap(), Some(1 << 30));
    });
}

#[test]
fn a_graph_runs_what_was_recorded_each_time_it_is_launched() {
    let name = "timing::a_graph_runs_what_was_recorded_each_time_it_is_launched";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffers = [device.upload(&[1.0f32; 2]).unwrap(), device.upload(&[1.0f32; 3]).unwrap()];
        let graph = device
            .record(|| buffers.iter_mut().try_for_each(|buffer| fill_all(&device, buffer, 9.0)))
            .unwrap();
        assert_eq!(buffers[0].to_vec().unwrap(), [1.0; 2]);
        // SAFETY: the buffers live, and nobody else uses them.
        let (_, time) = device.time(|| unsafe { graph.launch() }).unwrap();
        assert_eq!(time, 2 * KERNEL);
        assert_eq!(buffers[1].to_vec().unwrap(), [9.0; 3]);
        buffers[1].copy_from(&[4.0; 3]).unwrap();
        drop(device);
        // SAFETY: as above; the graph keeps the device alive.
        unsafe { graph.launch() }.unwrap();
        assert_eq!(buffers[1].to_vec().unwrap(), [9.0; 3]);
    });
}

#[test]
fn a_recording_that_fails_leaves_the_device_in_order() {
    isolated("timing::a_recording_that_fails_leaves_the_device_in_order", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(1).unwrap();

        let error = error_of(device.record(|| device.synchronize()));
        assert!(error.to_string().starts_with("synchronising with Fake GPU failed"), "{error}");
        let error = error_of(device.record(|| {
            let _ = device.synchronize();
            Ok::<_, DeviceError>(())
        }));
        assert!(error.to_string().starts_with("ending the recording on Fake GPU failed"), "{error}");
        let nested = device.record(|| device.record(|| Ok::<_, DeviceError>(())).map(drop));
        assert!(matches!(error_of(nested), DeviceError::AlreadyRecording { .. }));
        // SAFETY: the launch is refused.
        let error =
            error_of(device.record(|| unsafe { not_in_the_ptx::launch(&device, LaunchConfig::new(1, 1)) }));
        assert!(error.to_string().contains("no kernel not_in_the_ptx"), "{error}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            device.record(|| -> Result<(), DeviceError> { panic!("on purpose") })
        }));
        assert!(panicked.is_err());

        fill_all(&device, &mut buffer, 3.0).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [3.0]);
        device.record(|| fill_all(&device, &mut buffer, 4.0)).unwrap();
    });
}

#[test]
fn a_fault_in_a_graph_names_its_kernels() {
    isolated("timing::a_fault_in_a_graph_names_its_kernels", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let graph = device
            .record(|| {
                fill_all(&device, &mut buffer, 1.0)?;
                // SAFETY: the kernel has no contract.
                unsafe { broken::launch(&device, LaunchConfig::new(1, 1)) }
            })
            .unwrap();
        device.synchronize().unwrap();
        // SAFETY: the buffer lives, and nobody else uses it.
        unsafe { graph.launch() }.unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert!(error.starts_with("one of the kernels queued panicked in block (3, 1, 0)"), "{error}");
        assert!(error.contains("fill (grid") && error.contains("broken (grid"), "{error}");
        // SAFETY: as above.
        assert!(matches!(error_of(unsafe { graph.launch() }), DeviceError::Faulted { .. }));
    });
}

#[test]
fn the_cpu_is_timed_and_not_recorded() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    let (_, time) = device.time(|| fill_all(&device, &mut buffer, 2.0)).unwrap();
    assert!(time > Duration::ZERO);
    assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
    let error = error_of(device.record(|| fill_all(&device, &mut buffer, 3.0)));
    assert!(matches!(error, DeviceError::NoRecording { .. }), "{error}");
    assert_eq!((device.l2_bytes().unwrap(), device.free_bytes().unwrap()), (None, None));
}
