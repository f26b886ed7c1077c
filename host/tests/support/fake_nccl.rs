//! NCCL without a GPU, for tests: the ranks are processes or threads of one machine, and their memory is the host's.
//!
//! The operations are really performed, by a thread of each communicator over files, in the order of ranks. What goes
//! wrong is set by environment variables:
//!
//! - `FAKE_NCCL_VERSION`: the number that the library reports.
//! - `FAKE_NCCL_FAULT=KIND:RANK:NTH[:CODE]`: at the NTH operation of RANK (0 is the creation) the process ends (`die`), the
//!   call never returns (`hang`), the operation never ends (`stall`), the call answers CODE (`fail`), or the communicator's
//!   state becomes CODE (`async`).
//!
//! Compile with `rustc --crate-type cdylib`; with `--cfg without_finalize` the library lacks a function. Every pointer is
//! trusted, as NCCL trusts its caller's.

mod fake_nccl_elements;
mod fake_nccl_worker;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fake_nccl_worker::Worker;

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 4;
const IN_PROGRESS: c_int = 7;

#[unsafe(no_mangle)]
pub static ferrowarp_nccl_takes_host_memory: c_int = 1;

#[repr(C)]
pub struct UniqueId {
    internal: [u8; 128],
}

#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

#[derive(Clone, Copy)]
enum Kind {
    AllReduce(c_int),
    AllGather,
    ReduceScatter(c_int),
    Broadcast(usize),
    Send(usize),
    Receive(usize),
}

/// An operation; addresses are numbers, so that it can go to another thread.
#[derive(Clone, Copy)]
struct Operation {
    kind: Kind,
    input: usize,
    output: usize,
    count: usize,
    data_type: c_int,
}

enum Job {
    Connect,
    Perform(Vec<Operation>),
    Fail(c_int),
    Stall,
    Finalize,
}

/// What the communicator and its thread share.
struct Shared {
    rank: usize,
    size: usize,
    folder: PathBuf,
    state: AtomicI32,
    queued: AtomicUsize,
    is_aborted: AtomicBool,
}

pub struct Communicator {
    shared: Arc<Shared>,
    jobs: Option<Sender<Job>>,
    worker: Option<JoinHandle<()>>,
    operations: AtomicUsize,
    is_finalized: AtomicBool,
}

thread_local! {
    static GROUP: RefCell<Option<Vec<(*mut Communicator, Operation)>>> = const { RefCell::new(None) };
}

struct Fault {
    kind: String,
    rank: usize,
    nth: usize,
    code: c_int,
}

fn fault() -> Option<Fault> {
    let text = std::env::var("FAKE_NCCL_FAULT").ok()?;
    let parts: Vec<&str> = text.split(':').collect();
    let code = parts.get(3).map_or(SUCCESS, |code| code.parse().unwrap());
    let (rank, nth) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
    Some(Fault { kind: parts[0].to_owned(), rank, nth, code })
}

/// The fault of this operation, if it has one and the process goes on.
fn fault_of(rank: usize, nth: usize) -> Option<Fault> {
    unsafe extern "C" {
        fn _exit(code: c_int) -> !;
    }
    let fault = fault().filter(|fault| (fault.rank, fault.nth) == (rank, nth))?;
    match fault.kind.as_str() {
        "die" => unsafe { _exit(9) },
        "hang" => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        _ => Some(fault),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    let number = std::env::var("FAKE_NCCL_VERSION").map_or(22703, |number| number.parse().unwrap());
    unsafe { *version = number };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text: &CStr = match code {
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        6 => c"remote process exited or there was a network error",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_comm: *mut Communicator) -> *const c_char {
    if fault().is_some() { c"the fake was told to fail".as_ptr() } else { c"".as_ptr() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("fake-nccl-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = folder.to_str().unwrap().as_bytes();
    let mut internal = [0; 128];
    internal[..bytes.len()].copy_from_slice(bytes);
    unsafe { *id = UniqueId { internal } };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut *mut Communicator,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut Config,
) -> c_int {
    let config = unsafe { &*config };
    // What the real library checks, and what these tests are about.
    if config.magic != 0xcafe_beef || config.size < 24 || config.version < 21400 || config.blocking != 0 {
        return INVALID_ARGUMENT;
    }
    let (rank, size) = (rank as usize, size as usize);
    let len = id.internal.iter().position(|&byte| byte == 0).unwrap();
    let folder = PathBuf::from(std::str::from_utf8(&id.internal[..len]).unwrap());
    // The folder stays until the last rank has ended.
    std::fs::write(folder.join(rank.to_string()), []).unwrap();
    let shared = Arc::new(Shared {
        rank,
        size,
        folder,
        state: AtomicI32::new(SUCCESS),
        queued: AtomicUsize::new(0),
        is_aborted: AtomicBool::new(false),
    });
    let (jobs, received) = channel();
    let worker = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || Worker::new(shared).run(&received))
    };
    let (jobs, worker) = (Some(jobs), Some(worker));
    let (operations, is_finalized) = (AtomicUsize::new(0), AtomicBool::new(false));
    let communicator = Box::new(Communicator { shared, jobs, worker, operations, is_finalized });
    let status = communicator.begin(0, Job::Connect);
    unsafe { *comm = Box::into_raw(communicator) };
    status
}

#[cfg(not(without_finalize))]
#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommFinalize(comm: *mut Communicator) -> c_int {
    let comm = unsafe { &*comm };
    comm.is_finalized.store(true, Ordering::Relaxed);
    comm.queue(Job::Finalize)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDestroy(comm: *mut Communicator) -> c_int {
    let comm = unsafe { Box::from_raw(comm) };
    assert!(comm.is_finalized.load(Ordering::Relaxed), "finalize comes before destroy");
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommAbort(comm: *mut Communicator) -> c_int {
    let comm = unsafe { Box::from_raw(comm) };
    comm.shared.is_aborted.store(true, Ordering::Relaxed);
    SUCCESS
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.jobs = None;
        self.worker.take().unwrap().join().unwrap();
        let _ = std::fs::remove_file(self.shared.folder.join(self.shared.rank.to_string()));
        // The last rank's call succeeds.
        let _ = std::fs::remove_dir(&self.shared.folder);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommGetAsyncError(comm: *mut Communicator, state: *mut c_int) -> c_int {
    let now = unsafe { &*comm }.shared.state.load(Ordering::Acquire);
    unsafe { *state = now };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| {
        assert!(group.is_none(), "groups are not nested");
        *group = Some(Vec::new());
    });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> c_int {
    let group = GROUP.take().expect("a group was begun");
    let Some(&(comm, _)) = group.first() else { return SUCCESS };
    let operations = group.into_iter().map(|(_, operation)| operation).collect();
    unsafe { &*comm }.perform(operations)
}

/// Performs the operation, or keeps it for the end of the group.
fn call(comm: *mut Communicator, operation: Operation) -> c_int {
    let is_grouped =
        GROUP.with_borrow_mut(|group| group.as_mut().map(|group| group.push((comm, operation))).is_some());
    if is_grouped { SUCCESS } else { unsafe { &*comm }.perform(vec![operation]) }
}

macro_rules! operations {
    ($($name:ident($($parameter:ident: $ty:ty),*) => $kind:expr, $input:expr, $output:expr, $count:ident $data_type:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($parameter: $ty,)* comm: *mut Communicator, _stream: *mut c_void) -> c_int {
                let (input, output) = ($input as usize, $output as usize);
                call(comm, Operation { kind: $kind, input, output, count: $count, data_type: $data_type })
            }
        )*
    };
}

operations! {
    ncclAllReduce(input: *const c_void, output: *mut c_void, count: usize, data_type: c_int, reduction: c_int)
        => Kind::AllReduce(reduction), input, output, count data_type;
    ncclAllGather(input: *const c_void, output: *mut c_void, count: usize, data_type: c_int)
        => Kind::AllGather, input, output, count data_type;
    ncclReduceScatter(input: *const c_void, output: *mut c_void, count: usize, data_type: c_int, reduction: c_int)
        => Kind::ReduceScatter(reduction), input, output, count data_type;
    ncclBroadcast(input: *const c_void, output: *mut c_void, count: usize, data_type: c_int, root: c_int)
        => Kind::Broadcast(root as usize), input, output, count data_type;
    ncclSend(input: *const c_void, count: usize, data_type: c_int, to: c_int) => Kind::Send(to as usize), input, 0, count data_type;
    ncclRecv(output: *mut c_void, count: usize, data_type: c_int, from: c_int)
        => Kind::Receive(from as usize), 0, output, count data_type;
}

impl Communicator {
    fn perform(&self, operations: Vec<Operation>) -> c_int {
        let nth = self.operations.fetch_add(1, Ordering::Relaxed) + 1;
        self.begin(nth, Job::Perform(operations))
    }

    /// Begins the job unless its fault comes first.
    fn begin(&self, nth: usize, job: Job) -> c_int {
        match fault_of(self.shared.rank, nth) {
            None => self.queue(job),
            Some(Fault { kind, code, .. }) => match kind.as_str() {
                "fail" => code,
                "async" => self.queue(Job::Fail(code)),
                "stall" => self.queue(Job::Stall),
                other => panic!("no fault is called {other}"),
            },
        }
    }

    fn queue(&self, job: Job) -> c_int {
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        self.shared.state.store(IN_PROGRESS, Ordering::Release);
        self.jobs.as_ref().unwrap().send(job).unwrap();
        IN_PROGRESS
    }
}
