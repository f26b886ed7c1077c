//! The fake driver's events and graphs. Its clock advances a millisecond for every kernel that runs.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{INVALID_VALUE, fake_faults};

const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;

static CLOCK: AtomicU32 = AtomicU32::new(0);
static CAPTURE: Mutex<Option<Capture>> = Mutex::new(None);

struct Capture {
    nodes: Vec<Node>,
    is_valid: bool,
}

/// A launch, with its arguments copied.
#[derive(Clone, Copy)]
pub enum Node {
    Fill(*mut f32, usize, f32),
    /// Adds two slices.
    Add([*mut f32; 3], usize),
    Nothing,
    /// Ends with this code.
    Fault(c_int),
    /// Panics with this message in this file, at these coordinates of block and thread.
    Panic(&'static str, &'static str, [[u32; 3]; 2]),
    /// Never ends.
    Hang,
}

unsafe impl Send for Node {}

/// Runs the launch, or keeps it for the graph that is captured.
pub fn submit(node: Node) {
    match CAPTURE.lock().unwrap().as_mut() {
        Some(capture) => capture.nodes.push(node),
        None => run(node),
    }
}

fn run(node: Node) {
    CLOCK.fetch_add(1, Ordering::Relaxed);
    if !fake_faults::kernel_runs() {
        return;
    }
    match node {
        Node::Fill(pointer, len, value) => (0..len).for_each(|i| unsafe { pointer.add(i).write(value) }),
        Node::Add([out, lhs, rhs], len) => {
            (0..len).for_each(|i| unsafe { out.add(i).write(*lhs.add(i) + *rhs.add(i)) })
        }
        Node::Nothing => {}
        Node::Fault(code) => fake_faults::break_down(code),
        Node::Panic(message, file, at) => super::panic(message, file, at),
        Node::Hang => fake_faults::hang(),
    }
}

/// Refuses a call that a capture cannot hold, and spoils the capture.
pub fn invalidate() -> c_int {
    match CAPTURE.lock().unwrap().as_mut() {
        Some(capture) => {
            capture.is_valid = false;
            CAPTURE_UNSUPPORTED
        }
        None => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut u32, flags: c_uint) -> c_int {
    assert_eq!(flags, 0);
    unsafe { *event = Box::into_raw(Box::new(u32::MAX)) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: *mut u32, stream: *mut c_void) -> c_int {
    assert_eq!(stream as usize, 0x2000);
    unsafe { *event = CLOCK.load(Ordering::Relaxed) };
    fake_faults::answer("event")
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(_event: *mut u32) -> c_int {
    fake_faults::query()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_event: *mut u32) -> c_int {
    fake_faults::wait();
    fake_faults::answer("event")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut u32, end: *mut u32) -> c_int {
    unsafe { *milliseconds = (*end - *start) as f32 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: *mut u32) -> c_int {
    drop(unsafe { Box::from_raw(event) });
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_int) -> c_int {
    assert_eq!((stream as usize, mode), (0x2000, 1), "the device's stream, thread-local");
    let mut capture = CAPTURE.lock().unwrap();
    if capture.is_some() {
        return INVALID_VALUE;
    }
    *capture = Some(Capture { nodes: Vec::new(), is_valid: true });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(_stream: *mut c_void, graph: *mut *mut Vec<Node>) -> c_int {
    match CAPTURE.lock().unwrap().take() {
        Some(Capture { nodes, is_valid: true }) => {
            unsafe { *graph = Box::into_raw(Box::new(nodes)) };
            0
        }
        Some(_) => {
            unsafe { *graph = std::ptr::null_mut() };
            CAPTURE_INVALIDATED
        }
        None => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut *mut Vec<Node>,
    graph: *mut Vec<Node>,
    flags: c_ulonglong,
) -> c_int {
    assert_eq!(flags, 0);
    unsafe { *executable = Box::into_raw(Box::new((*graph).clone())) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(executable: *mut Vec<Node>, stream: *mut c_void) -> c_int {
    assert_eq!(stream as usize, 0x2000);
    match fake_faults::answer("launch") {
        0 => unsafe { (*executable).iter() }.for_each(|&node| run(node)),
        code => return code,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(executable: *mut Vec<Node>) -> c_int {
    fake_faults::wait();
    drop(unsafe { Box::from_raw(executable) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: *mut Vec<Node>) -> c_int {
    drop(unsafe { Box::from_raw(graph) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    unsafe { (*free, *total) = (super::fake_memory::FREE, 2 * super::fake_memory::FREE) };
    0
}
