//! The fake driver's launches in clusters and cooperative ones, with the layouts of cuda.h.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

use super::{Function, INVALID_VALUE, fake_graph};

/// `CUDA_ERROR_INVALID_CLUSTER_SIZE`.
const INVALID_CLUSTER_SIZE: c_int = 912;

/// Kernels that may run in clusters of more than 8 blocks, once for each time that somebody asked.
static ALLOWED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[repr(C)]
struct LaunchConfig {
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    attributes: *const LaunchAttribute,
    attributes_len: c_uint,
}

#[repr(C)]
struct LaunchAttribute {
    id: c_int,
    pad: [u8; 4],
    value: [u32; 16],
}

/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
pub fn allow(kernel: &str, value: c_int) {
    assert_eq!(value, 1);
    ALLOWED.lock().unwrap().push(kernel.to_owned());
}

driver! {
    /// `in_clusters(out)` writes the blocks of a cluster, then grid, block, shared memory, how often the kernel asked for
    /// large clusters, and whether it may begin before the one before it has ended.
    fn cuLaunchKernelEx(
        config: *const LaunchConfig, function: *mut Function, parameters: *const *mut c_void,
        extra: *mut *mut c_void
    ) {
        let (config, name) = (&*config, (*function).name.as_str());
        assert!(extra.is_null() && fake_graph::is_stream(config.stream));
        if name == "meeting" {
            return meet(config, *parameters.read().cast());
        }
        if name != "in_clusters" {
            let LaunchConfig { grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, .. } = *config;
            // Whatever the attributes say, what such a kernel does is the same.
            return unsafe {
                super::cuLaunchKernel(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra,
                )
            };
        }
        let attributes = std::slice::from_raw_parts(config.attributes, config.attributes_len as usize);
        let (mut cluster, mut is_programmatic) = (1, 0);
        for LaunchAttribute { id, value, .. } in attributes {
            match id {
                4 => {
                    assert_eq!(value[1..3], [1, 1]);
                    cluster = value[0];
                }
                6 => is_programmatic = value[0],
                other => panic!("the fake driver has no launch attribute {other}"),
            }
        }
        let asked = ALLOWED.lock().unwrap().iter().filter(|kernel| *kernel == name).count();
        if !config.grid_x.is_multiple_of(cluster) {
            return INVALID_VALUE;
        }
        if cluster > if asked > 0 { 16 } else { 8 } {
            return INVALID_CLUSTER_SIZE;
        }
        let numbers = [
            cluster,
            config.grid_x,
            config.grid_y,
            config.grid_z,
            config.block_x,
            config.block_y,
            config.block_z,
            config.shared,
            asked as u32,
            is_programmatic,
        ];
        let out = *parameters.read().cast::<*mut f32>();
        for (i, number) in numbers.into_iter().enumerate() {
            fake_graph::submit(fake_graph::Node::Fill(out.add(i), 1, number as f32), config.stream);
        }
        0
    }
}

/// `meeting(out)` writes the attributes of its launch, a number and the first word of its value each.
unsafe fn meet(config: &LaunchConfig, out: *mut f32) -> c_int {
    let attributes = unsafe { std::slice::from_raw_parts(config.attributes, config.attributes_len as usize) };
    let numbers = attributes.iter().flat_map(|attribute| [attribute.id as u32, attribute.value[0]]);
    for (i, number) in numbers.enumerate() {
        fake_graph::submit(fake_graph::Node::Fill(unsafe { out.add(i) }, 1, number as f32), config.stream);
    }
    0
}

driver! {
    /// As many as have 2048 threads, less one with dynamic shared memory.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _function: *mut Function, threads: c_int, shared: usize
    ) {
        *blocks = 2048 / threads - c_int::from(shared > 0);
        0
    }

    /// Clusters of up to 128 blocks together, of launches that say how large a cluster is.
    fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int, _function: *mut Function, config: *const LaunchConfig
    ) {
        let config = &*config;
        let LaunchAttribute { id: 4, value: [cluster, 1, 1, ..], .. } = (&*config.attributes) else {
            return INVALID_VALUE;
        };
        *clusters = (128 / *cluster) as c_int;
        0
    }
}
