//! Memory that the host and the GPU share: the kernels, which are ordinary ones.
//!
//! A page of unified memory lies where it was touched last. A kernel that touches a page that is elsewhere faults: its warp
//! waits while the driver migrates the page. The rungs of the lesson differ in who touches the memory first, and in the
//! advice that the driver gets beforehand. The kernels differ in which warps touch a page:
//!
//! * `unified_fill`, `unified_add`: each thread takes one element, so 512 warps meet at a page of 64 KiB.
//! * `unified_fill_pages`, `unified_add_pages`: one warp takes a whole page.
//!
//! Requires: blocks of 256 threads.
//@ ptx(unified_fill): ld.global == 0, st.global.b32 == 2, .local == 0
//@ ptx(unified_add): ld.global.b32 == 2, st.global.b32 == 1, .local == 0
//@ ptx(unified_fill_pages): ld.global == 0, .local == 0
//@ ptx(unified_add_pages): .local == 0

use cuda_std::{kernel, thread, warp};

/// Bytes of a page in the page-per-warp kernels.
pub const PAGE: usize = 1 << 16;
/// Elements of a page.
const OF_PAGE: usize = PAGE / size_of::<f32>();
/// Elements of a page for each thread of its warp.
const OF_LANE: usize = OF_PAGE / 32;
/// The value that fills `x`.
pub const X: f32 = 1.0;
/// The value that fills `y`.
pub const Y: f32 = 2.0;

lesson! {
    buffers(x: f32, y: f32)
    values(len: u32)
    facts(Grid)
    "fill" = unified_fill[0]: "x and y are filled, one element per thread";
    "add" = unified_add[0]: "x is added to y, one element per thread";
    "fill" = unified_fill_pages[0]: "x and y are filled, one page per warp";
    "add" = unified_add_pages[0]: "x is added to y, one page per warp";
}

/// Sets `x[i]` to [`X`] and `y[i]` to [`Y`], one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` elements, which no other code uses.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn unified_fill(x: *mut f32, y: *mut f32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in both, and only this thread writes the elements.
        unsafe {
            *x.add(i) = X;
            *y.add(i) = Y;
        }
    }
}

/// `y[i] += x[i]`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` elements, and no other code uses the elements of `y`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn unified_add(x: *const f32, y: *mut f32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: `i` lies in both, and only this thread writes the element.
        unsafe { *y.add(i) += *x.add(i) };
    }
}

/// Returns the thread's elements of a page: every 32nd, so that the lanes of its warp take neighbours.
#[inline(always)]
fn of_page(len: u32) -> impl Iterator<Item = usize> {
    let warp = thread::index_1d() as usize / 32;
    let first = warp * OF_PAGE + warp::lane_id() as usize;
    let end = (warp * OF_PAGE + OF_PAGE).min(len as usize);
    (0..OF_LANE).map(move |step| first + 32 * step).take_while(move |&i| i < end)
}

/// Like [`unified_fill`](fn@unified_fill), with one page per warp.
///
/// Launched with at least one warp per 16384 elements along x, in blocks of 256 threads.
///
/// # Safety
/// Same as for [`unified_fill`](fn@unified_fill), with the launch described here.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, OF_LANE>())]
pub unsafe fn unified_fill_pages(x: *mut f32, y: *mut f32, len: u32) {
    for i in of_page(len) {
        // SAFETY: `i` lies in both, and only this thread writes the elements.
        unsafe {
            *x.add(i) = X;
            *y.add(i) = Y;
        }
    }
}

/// Like [`unified_add`](fn@unified_add), with one page per warp.
///
/// Launched with at least one warp per 16384 elements along x, in blocks of 256 threads.
///
/// # Safety
/// Same as for [`unified_add`](fn@unified_add), with the launch described here.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, OF_LANE>())]
pub unsafe fn unified_add_pages(x: *const f32, y: *mut f32, len: u32) {
    for i in of_page(len) {
        // SAFETY: `i` lies in both, and only this thread writes the element.
        unsafe { *y.add(i) += *x.add(i) };
    }
}
