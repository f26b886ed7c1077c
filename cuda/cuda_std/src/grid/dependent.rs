//! Programmatic dependent launch: a kernel begins while the one before it on its stream still runs.

#[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.griddepcontrol.wait"]
        pub(super) fn wait();
        #[link_name = "llvm.nvvm.griddepcontrol.launch.dependents"]
        pub(super) fn launch_dependents();
    }
}

/// Waits until the work queued before this launch has ended and its writes are visible. A kernel that is launched
/// `with_programmatic_stream_serialization` calls this before it touches memory that the earlier work uses. Independent
/// work, such as a table in shared memory, comes before the call. In any other launch there is nothing to wait for.
///
/// Pass memory that the earlier work writes as a raw pointer. The elements of a `&[T]` must not change after the
/// kernel's start, and may be read before this call.
///
/// Compiled for a compute capability before 9.0, and on the host, it does nothing: there all earlier work has ended.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// out = a * inp
/// ///
/// /// # Safety
/// /// Both hold `len` elements, and there is a thread for each.
/// #[kernel]
/// pub unsafe fn scale(out: *mut f32, inp: *const f32, len: usize, a: f32) {
///     let i = thread::index_1d() as usize;
///     grid::wait_for_dependencies(); // The previous kernel has written `inp`.
///     if i < len {
///         unsafe { *out.add(i) = a * *inp.add(i) };
///     }
///     grid::launch_dependents(); // The next kernel's blocks may start.
/// }
///
/// let mut out = [0.0; 3];
/// let config = LaunchConfig::new(1, 32).with_programmatic_stream_serialization();
/// unsafe { scale::launch(&Executor::new(), config, &mut out, &[1.0, 2.0, 3.0], 3, 2.0)? };
/// assert_eq!(out, [2.0, 4.0, 6.0]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "griddepcontrol.wait", alias = "cudaGridDependencySynchronize")]
#[inline(always)]
pub fn wait_for_dependencies() {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
    // SAFETY: each thread may call it at any time (PTX ISA, "griddepcontrol").
    unsafe {
        device::wait();
    }
}

/// Allows the next launch to begin, if it is `with_programmatic_stream_serialization`. It begins once each block of
/// this grid has ended or one of its threads has called this. The call does not publish writes: the next kernel sees
/// them after its own [`wait_for_dependencies`], which waits for the end of this grid.
///
/// Compiled for a compute capability before 9.0, and on the host, it does nothing.
#[doc(alias = "griddepcontrol.launch_dependents", alias = "cudaTriggerProgrammaticLaunchCompletion")]
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
    // SAFETY: the instruction has no precondition.
    unsafe {
        device::launch_dependents();
    }
}
