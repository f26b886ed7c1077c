//! What a launch costs: a kernel that does nothing.
//!
//! The lesson varies the host code: whether it waits for each launch, queues them, or records them in a graph.
//!
//! Requires: any launch.
//@ ptx(launches_empty): ld.global == 0, st.global == 0

use cuda_std::kernel;

lesson! {
    buffers(out: u32)
    values()
    facts(Grid)
    "empty" = launches_empty[0]: "a kernel that does nothing";
}

/// Does nothing.
///
/// # Safety
/// It has no precondition; a launch of a kernel with a pointer is unsafe.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn launches_empty(out: *mut u32) {
    let _ = out;
}
