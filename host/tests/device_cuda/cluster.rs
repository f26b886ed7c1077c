//! Launches in clusters: the calls to the driver, the queries before them, and what is refused without asking it.

use super::*;

/// # Safety
/// `out` holds ten elements.
#[kernel(min_arch = 90)]
pub unsafe fn in_clusters(out: *mut f32) {
    // SAFETY: by the contract.
    unsafe { *out = 0.0 };
}

/// # Safety
/// None.
#[kernel(min_arch = 100)]
pub unsafe fn for_newer_devices() {}

fn config(grid: (u32, u32, u32), cluster: u32) -> LaunchConfig {
    LaunchConfig::new(grid, (64, 2, 1)).with_shared_bytes(96).with_cluster(cluster)
}

#[test]
fn the_driver_gets_the_cluster_and_is_asked_once_for_large_ones() {
    let name = "cluster::the_driver_gets_the_cluster_and_is_asked_once_for_large_ones";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        assert_eq!((device.limits().max_cluster, device.limits().capability), (16, 90));
        let mut out = device.alloc_zeroed::<f32>(10).unwrap();
        // Blocks of a cluster, and how often the kernel had asked for more than 8 by then.
        for (cluster, asked) in [(2, 0.0), (8, 0.0), (16, 1.0), (12, 1.0), (4, 1.0), (16, 1.0)] {
            let launch = config((96, 3, 2), cluster);
            // SAFETY: ten elements.
            unsafe { in_clusters::launch(&device, launch, &mut out) }.unwrap();
            let expected = [cluster as f32, 96.0, 3.0, 2.0, 64.0, 2.0, 1.0, 96.0, asked, 0.0];
            assert_eq!(out.to_vec().unwrap(), expected);
        }
    });
}

#[test]
fn a_graph_holds_the_attributes_of_its_launches() {
    isolated("cluster::a_graph_holds_the_attributes_of_its_launches", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let out = device.alloc_zeroed::<f32>(10).unwrap();
        let launch = |stream: &Stream, out: &mut Buffer<f32>| {
            let config = config((16, 1, 1), 16).with_programmatic_stream_serialization();
            // SAFETY: ten elements.
            unsafe { in_clusters::launch(stream, config, out) }
        };
        let mut graph = device.record(out, launch).unwrap();
        assert_eq!(graph.state().to_vec().unwrap(), [0.0; 10]);
        graph.launch().unwrap();
        let numbers = graph.state().to_vec().unwrap();
        assert_eq!((&numbers[..2], numbers[9]), (&[16.0, 16.0][..], 1.0));
    });
}

#[test]
fn the_driver_is_told_what_may_begin_early() {
    isolated("cluster::the_driver_is_told_what_may_begin_early", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut out = device.alloc_zeroed::<f32>(10).unwrap();
        for (cluster, is_early) in [(1, true), (4, true), (4, false)] {
            let mut launch = config((8, 1, 1), cluster);
            if is_early {
                launch = launch.with_programmatic_stream_serialization();
            }
            // SAFETY: ten elements.
            unsafe { in_clusters::launch(&device, launch, &mut out) }.unwrap();
            let numbers = out.to_vec().unwrap();
            assert_eq!((numbers[0], numbers[9]), (cluster as f32, f32::from(u8::from(is_early))));
        }
    });
}

/// A kernel compiled for 8.0 has no instruction with which it could wait for the one before it.
#[test]
fn a_kernel_compiled_for_an_older_device_does_not_begin_early() {
    let older_ptx = |folder: &Path| {
        std::fs::write(folder.join("kernels.compute_80.ptx"), PTX.replace(".target sm_90", ".target sm_80"))
            .unwrap();
    };
    let name = "cluster::a_kernel_compiled_for_an_older_device_does_not_begin_early";
    isolated(name, None, "1", older_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut out = device.alloc_zeroed::<f32>(10).unwrap();
        let launch = config((8, 1, 1), 4).with_programmatic_stream_serialization();
        // SAFETY: ten elements.
        unsafe { in_clusters::launch(&device, launch, &mut out) }.unwrap();
        assert_eq!(out.to_vec().unwrap()[9], 0.0);
    });
}

#[test]
fn clusters_that_do_not_fit_are_refused() {
    isolated("cluster::clusters_that_do_not_fit_are_refused", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut out = device.alloc_zeroed::<f32>(10).unwrap();
        let mut error = |grid, cluster| {
            // SAFETY: ten elements; the launch is refused.
            unsafe { in_clusters::launch(&device, config((grid, 1, 1), cluster), &mut out) }.unwrap_err()
        };
        assert!(matches!(error(34, 17), LaunchError::ClusterSize { got: 17, max: 16, .. }));
        assert!(matches!(error(34, 0), LaunchError::ClusterSize { got: 0, .. }));
        assert!(matches!(error(34, 4), LaunchError::PartOfCluster { cluster: 4, .. }));
        // SAFETY: the kernel has no contract.
        let error = unsafe { for_newer_devices::launch(&device, LaunchConfig::new(1, 1)) }.unwrap_err();
        assert!(matches!(error, LaunchError::TooOld { needed: 100, found: 90, .. }), "{error}");
        assert_eq!(out.to_vec().unwrap(), [0.0; 10]);
    });
}
