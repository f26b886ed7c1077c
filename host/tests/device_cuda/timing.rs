//! Timing by events.

use std::time::Duration;

use ferrowarp::device::{LaunchTimes, Launched, Peaks};

use super::*;

/// The driver's clock advances a millisecond for every kernel.
const KERNEL: Duration = Duration::from_millis(1);

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
fn a_profile_has_each_kernel_and_each_graph_by_itself() {
    isolated("timing::a_profile_has_each_kernel_and_each_graph_by_itself", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        assert!(launched_in_a_profile(&device).iter().map(|times| times.time).eq([3 * KERNEL, 4 * KERNEL]));
        let Peaks { flops, bytes_per_second } = device.peaks().unwrap().unwrap();
        // A product and an addition in each of 128 lanes a cycle; 640 bytes twice a cycle.
        assert_eq!((flops, bytes_per_second), (2.0 * 128.0 * 132.0 * 2.619e9, 2.0 * 640.0 * 2.619e9));
    });
}

#[test]
fn a_profile_of_the_cpu_has_the_same() {
    let device = Device::cpu();
    assert!(launched_in_a_profile(&device).iter().all(|times| times.time > Duration::ZERO));
    assert_eq!(device.peaks().unwrap(), None);
}

/// Three launches and two of a graph of two; others, before and after and refused, that are not timed.
fn launched_in_a_profile(device: &Device) -> Vec<LaunchTimes> {
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    fill_all(device, &mut buffer, 1.0).unwrap();
    device.start_profile();
    fill_all(device, &mut buffer, 2.0).unwrap();
    let stream = device.stream().unwrap();
    fill_all(&stream, &mut buffer, 3.0).unwrap();
    drop(stream);
    let buffers = [device.upload(&[1.0f32; 2]).unwrap(), device.upload(&[1.0f32; 3]).unwrap()];
    let fill_both = |stream: &Stream, buffers: &mut [Buffer<f32>; 2]| {
        buffers.iter_mut().try_for_each(|buffer| fill_all(stream, buffer, 9.0))
    };
    let mut graph = device.record(buffers, fill_both).unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.into_state()[1].to_vec().unwrap(), [9.0; 3]);
    // SAFETY: the launch is refused.
    unsafe { fill::launch(device, LaunchConfig::new(1, 4096), &mut buffer, 4, 0.0) }.unwrap_err();
    fill_all(device, &mut buffer, 4.0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [4.0; 4]);
    let times = device.take_profile();
    fill_all(device, &mut buffer, 5.0).unwrap();
    assert_eq!(device.take_profile(), []);
    let counted: Vec<_> = times.iter().map(|times| (times.what, times.launches)).collect();
    assert_eq!(counted, [(Launched::Kernel("fill"), 3), (Launched::Graph { launches: 2 }, 2)]);
    times
}

#[test]
fn the_cpu_is_timed_by_the_hosts_clock() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    let (_, time) = device.time(|| fill_all(&device, &mut buffer, 2.0)).unwrap();
    assert!(time > Duration::ZERO);
    assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
    assert_eq!((device.l2_bytes().unwrap(), device.free_bytes().unwrap()), (None, None));
}
