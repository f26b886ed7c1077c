//! The fake driver's events and graphs. Its clock advances a millisecond for every kernel that runs.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{INVALID_VALUE, fake_faults};

const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;
const CAPTURE_UNJOINED: c_int = 904;
const CAPTURE_ISOLATION: c_int = 905;

static CLOCK: AtomicU32 = AtomicU32::new(0);
static CAPTURE: Mutex<Option<Capture>> = Mutex::new(None);
/// Streams that there have been, each with its own address.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

struct Capture {
    nodes: Vec<Node>,
    is_valid: bool,
    /// The streams that are captured, the one that began first; of each how much it has done and how much of that the
    /// first one waits for.
    streams: Vec<(usize, u32, u32)>,
}

/// An event: the clock when it was recorded, and the captured stream and its work if it was in a capture.
pub struct Event {
    time: u32,
    captured: Option<(usize, u32)>,
}

/// A new stream.
pub fn new_stream() -> *mut c_void {
    (0x2000 + 0x10 * STREAMS.fetch_add(1, Ordering::Relaxed)) as *mut c_void
}

/// The number of the last stream is free again.
pub fn destroy_stream(stream: *mut c_void) {
    let number = (stream as usize - 0x2000) / 0x10;
    let _ = STREAMS.compare_exchange(number + 1, number, Ordering::Relaxed, Ordering::Relaxed);
}

/// Begins to load a module.
pub fn loads(ptx: &str) -> c_int {
    if let Some(kernel) = ptx.split(".entry ").nth(1).and_then(|rest| rest.split('(').next()) {
        fake_faults::trace(&format!("the module of {kernel}"));
    }
    if ptx.contains("takes long") {
        std::thread::sleep(std::time::Duration::from_millis(2500));
    }
    fake_faults::answer("module")
}

/// A copy of the host's memory to the stream: it would be part of a capture, and must not be.
pub fn copies(stream: *mut c_void) {
    assert_eq!(invalidate(stream), 0, "a copy on a captured stream");
}

/// Whether that is a stream.
pub fn is_stream(stream: *mut c_void) -> bool {
    let at = stream as usize;
    at >= 0x2000 && at % 0x10 == 0 && (at - 0x2000) / 0x10 < STREAMS.load(Ordering::Relaxed)
}

impl Capture {
    fn holds(&self, stream: *mut c_void) -> bool {
        self.streams.iter().any(|captured| captured.0 == stream as usize)
    }

    fn of(&mut self, stream: *mut c_void) -> Option<&mut (usize, u32, u32)> {
        self.streams.iter_mut().find(|captured| captured.0 == stream as usize)
    }
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
pub fn submit(node: Node, stream: *mut c_void) {
    assert!(is_stream(stream));
    let mut capture = CAPTURE.lock().unwrap();
    if let Some(capture) = capture.as_mut()
        && let Some((_, work, _)) = capture.of(stream)
    {
        *work += 1;
        return capture.nodes.push(node);
    }
    drop(capture);
    run(node)
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
        Node::Panic(message, file, at) => super::fake_faults::panic(message, file, at),
        Node::Hang => fake_faults::hang(),
    }
}

/// Refuses a call that a capture of the stream cannot hold, and spoils the capture.
pub fn invalidate(stream: *mut c_void) -> c_int {
    match CAPTURE.lock().unwrap().as_mut() {
        Some(capture) if capture.holds(stream) => {
            capture.is_valid = false;
            CAPTURE_UNSUPPORTED
        }
        _ => 0,
    }
}

driver! {
    fn cuEventCreate(event: *mut *mut Event, flags: c_uint) {
        assert!(flags == 0 || flags == 2, "with or without the time");
        *event = Box::into_raw(Box::new(Event { time: u32::MAX, captured: None }));
        0
    }

    fn cuEventRecord(event: *mut Event, stream: *mut c_void) {
        assert!(is_stream(stream));
        let mut capture = CAPTURE.lock().unwrap();
        let captured = capture.as_mut().and_then(|capture| capture.of(stream).map(|&mut (at, work, _)| (at, work)));
        *event = Event { time: CLOCK.load(Ordering::Relaxed), captured };
        fake_faults::trace_call("record", stream);
        fake_faults::answer("event")
    }

    /// A stream that waits for an event of the capture joins it.
    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut Event, flags: c_uint) {
        assert!(is_stream(stream) && flags == 0);
        let mut capture = CAPTURE.lock().unwrap();
        let event = &*event;
        match (event.captured, capture.as_mut()) {
            (Some((from, seen)), Some(capture)) => {
                let is_first = capture.streams[0].0 == stream as usize;
                if capture.of(stream).is_none() {
                    capture.streams.push((stream as usize, 1, 0));
                }
                if is_first && let Some((_, _, joined)) = capture.of(from as *mut c_void) {
                    *joined = seen.max(*joined);
                }
            }
            (Some(_), None) => return INVALID_VALUE,
            (None, Some(capture)) if capture.holds(stream) => return CAPTURE_ISOLATION,
            (None, _) => assert_ne!(event.time, u32::MAX, "the event was recorded"),
        }
        fake_faults::trace_call("wait", stream);
        fake_faults::answer("event")
    }

    fn cuEventQuery(event: *mut Event) {
        assert!((*event).captured.is_none());
        fake_faults::query()
    }

    fn cuEventSynchronize(event: *mut Event) {
        assert!((*event).captured.is_none());
        fake_faults::wait();
        fake_faults::answer("event")
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut Event, end: *mut Event) {
        *milliseconds = (*end).time as f32 - (*start).time as f32;
        0
    }

    fn cuEventDestroy_v2(event: *mut Event) {
        super::fake_memory::need_context();
        drop(Box::from_raw(event));
        0
    }

    fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_int) {
        assert!(is_stream(stream) && mode == 2, "relaxed");
        let mut capture = CAPTURE.lock().unwrap();
        if capture.is_some() {
            return INVALID_VALUE;
        }
        *capture = Some(Capture { nodes: Vec::new(), is_valid: true, streams: vec![(stream as usize, 0, 0)] });
        0
    }

    fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut Vec<Node>) {
        match CAPTURE.lock().unwrap().take() {
            Some(capture) if capture.streams[0].0 != stream as usize => INVALID_VALUE,
            Some(Capture { streams, .. }) if streams[1..].iter().any(|&(_, work, joined)| joined < work) => {
                *graph = std::ptr::null_mut();
                CAPTURE_UNJOINED
            }
            Some(Capture { nodes, is_valid: true, .. }) => {
                *graph = Box::into_raw(Box::new(nodes));
                0
            }
            Some(_) => {
                *graph = std::ptr::null_mut();
                CAPTURE_INVALIDATED
            }
            None => INVALID_VALUE,
        }
    }

    fn cuGraphInstantiateWithFlags(
        executable: *mut *mut Vec<Node>, graph: *mut Vec<Node>, flags: c_ulonglong
    ) {
        assert_eq!(flags, 0);
        *executable = Box::into_raw(Box::new((*graph).clone()));
        0
    }

    fn cuGraphLaunch(executable: *mut Vec<Node>, stream: *mut c_void) {
        assert!(is_stream(stream));
        match fake_faults::answer("launch") {
            0 => (*executable).iter().for_each(|&node| run(node)),
            code => return code,
        }
        0
    }

    fn cuGraphExecDestroy(executable: *mut Vec<Node>) {
        fake_faults::wait();
        drop(Box::from_raw(executable));
        0
    }

    fn cuGraphDestroy(graph: *mut Vec<Node>) {
        drop(Box::from_raw(graph));
        0
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        (*free, *total) = (super::fake_memory::FREE, 2 * super::fake_memory::FREE);
        0
    }
}
