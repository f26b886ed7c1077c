//! Cooperative launches: the calls to the driver, and grids that do not fit the device at once.

use super::*;

/// # Safety
/// `out` holds four elements.
#[kernel(cooperative)]
pub unsafe fn meeting(out: *mut f32) {
    // SAFETY: by the contract.
    unsafe { *out = 0.0 };
}

#[test]
fn the_driver_is_told_that_a_launch_is_cooperative() {
    let name = "cooperative::the_driver_is_told_that_a_launch_is_cooperative";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        assert_eq!(device.limits().max_resident_threads, 132 * 2048);
        let mut out = device.alloc_zeroed::<f32>(4).unwrap();
        // SAFETY: four elements.
        unsafe { meeting::launch(&device, LaunchConfig::new(132 * 8, 256), &mut out) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [2.0, 1.0, 0.0, 0.0]);
        // SAFETY: as above.
        unsafe { meeting::launch(&device, LaunchConfig::new(128, 256).with_cluster(8), &mut out) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [4.0, 8.0, 2.0, 1.0]);
    });
}

#[test]
fn grids_that_do_not_fit_at_once_are_refused() {
    let name = "cooperative::grids_that_do_not_fit_at_once_are_refused";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut out = device.alloc_zeroed::<f32>(4).unwrap();
        let one = LaunchConfig::new(1, 256);
        for (config, fit) in [
            (one, 132 * 8),
            (one.with_shared_bytes(64), 132 * 7),
            (one.with_cluster(8), 128),
            (one.with_cluster(12), 120),
        ] {
            assert_eq!(device.resident_blocks(meeting::META, &config).unwrap(), fit);
            let with_grid = |blocks: u64| LaunchConfig { grid: (blocks as u32).into(), ..config };
            // SAFETY: four elements.
            unsafe { meeting::launch(&device, with_grid(fit), &mut out) }.unwrap();
            let more = fit + u64::from(config.cluster);
            // SAFETY: the launch is refused.
            let error = unsafe { meeting::launch(&device, with_grid(more), &mut out) }.unwrap_err();
            let LaunchError::NotResident { kernel: "meeting", got, fit: fits } = error else {
                panic!("{error}")
            };
            assert_eq!((got, fits), (more, fit));
        }
        let error = device.resident_blocks(meeting::META, &LaunchConfig::new(1, 2048)).unwrap_err();
        assert!(error.to_string().contains("the block (2048, 1, 1) is over the device's limit"), "{error}");
        // Nothing of this is asked of a kernel that is not cooperative.
        // SAFETY: `fill` writes four elements.
        unsafe { fill::launch(&device, LaunchConfig::new(1 << 20, 256), &mut out, 4, 1.0) }.unwrap();
    });
}
