//! Timing by events.

use std::time::Duration;

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
fn the_cpu_is_timed_by_the_hosts_clock() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    let (_, time) = device.time(|| fill_all(&device, &mut buffer, 2.0)).unwrap();
    assert!(time > Duration::ZERO);
    assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
    assert_eq!((device.l2_bytes().unwrap(), device.free_bytes().unwrap()), (None, None));
}
