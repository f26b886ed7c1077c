//! Reports a kernel thread that overflows its stack, accesses an address without memory, runs into bytes that are not
//! code, or does not end. The system alone would only end the program.
//!
//! A stack ends in a guard page. When a thread touches it, the signal handler writes one line and aborts. The handler
//! runs on a stack that the standard library keeps for it. It does the same for the signal sent to a thread of a launch
//! over its time limit. An access to a zone next to a test's memory is noted there, and the thread goes on. For an
//! access to any other address the handler writes one line. All signals except those of a zone and of a stack then go
//! to the previous handler.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write as _};
use core::mem::MaybeUninit;
use core::ptr;
use std::sync::{Once, OnceLock};

use super::context::{self, ThreadContext};
use super::fault::Fault;
use super::stack;
use super::watch::Whose;

/// The largest distance from the stack pointer, in bytes, of an access that overflows the stack: frames larger than a
/// page are touched page by page when they are created.
const NEAR: usize = 64 * 1024;

/// The code of a signal without an address (sigaction(2), SI_KERNEL).
const SI_KERNEL: c_int = 128;

/// The signals of an access without memory, of one beyond the end of a mapped file, and of an illegal instruction.
const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL];

/// The previous handlers of the [`SIGNALS`].
static BEFORE: [OnceLock<libc::sigaction>; 3] = [const { OnceLock::new() }; 3];

/// Installs the handlers, once.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| SIGNALS.into_iter().zip(&BEFORE).for_each(install));
}

fn install((signal, kept): (c_int, &OnceLock<libc::sigaction>)) {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with no new action the call only writes the one in force to `before`, all of it if it succeeds. The new
    // action is valid in full: zeros, a handler of the type that SA_SIGINFO requires, an empty mask.
    unsafe {
        if libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) != 0 {
            return;
        }
        let _ = kept.set(before.assume_init());
        let mut action: libc::sigaction = core::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// Handles a signal. It allocates nothing and takes no lock, as required of a signal handler.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, machine: *mut c_void) {
    // SAFETY: the system calls the handler with both pointers valid (sigaction(2), SA_SIGINFO).
    let is_sent = unsafe { (*info).si_code } == libc::SI_TKILL;
    if is_sent {
        context::with_running(end_if_expired);
        return;
    }
    // SAFETY: the system calls the handler with both pointers valid.
    let (address, stack_pointer, is_write) =
        unsafe { ((*info).si_addr() as usize, stack_pointer(machine.cast()), is_write(machine.cast())) };
    if signal == libc::SIGILL {
        context::with_running(|thread| {
            let Whose { kernel, place } = thread.whose();
            let address = Address(Some(address));
            write_error(format_args!(
                "kernel {kernel} failed in {place}: ran an illegal instruction at {address}: check its function pointers"
            ));
        });
        return hand_on(signal);
    }
    let mut can_go_on = false;
    context::with_running(|thread| {
        let regions = &thread.grid().regions;
        can_go_on = regions.iter().any(|region| region.note(|| thread.whose(), address, is_write));
    });
    if can_go_on {
        return;
    }
    if stack_pointer.is_some_and(|pointer| address.abs_diff(pointer) <= NEAR) {
        context::with_running(|thread| {
            let Whose { kernel, place } = thread.whose();
            end(format_args!(
                "the CPU device gives each thread a stack of {} KiB, too small for kernel {kernel} in {place}: set {}={}; if \
                 no size is enough, its recursion does not end",
                stack::bytes().unwrap_or_default() / 1024,
                stack::VARIABLE,
                stack::bytes().unwrap_or_default() / 256,
            ));
        });
    }
    // SAFETY: the system calls the handler with a valid `info`.
    let is_known = unsafe { (*info).si_code } != SI_KERNEL;
    context::with_running(|thread| {
        let Whose { kernel, place } = thread.whose();
        // The processor does not report an address that no memory can have.
        let address = Address(is_known.then_some(address));
        write_error(format_args!(
            "kernel {kernel} failed in {place}: accessed {address}, where there is no memory: check its pointers and the \
             numbers that it adds to them, such as an unsigned index below 0"
        ));
    });
    hand_on(signal);
}

/// Restores the signal's previous handler. When the calling handler returns, the instruction is repeated, and its signal
/// goes to that one.
fn hand_on(signal: c_int) {
    let before = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal);
    if let Some(before) = before.and_then(|(_, before)| before.get()) {
        // SAFETY: the system returned the action.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}

/// Ends the program if the thread's launch is over its time limit.
fn end_if_expired(thread: &ThreadContext<'_>) {
    let Some(clock) = thread.grid().clock.filter(|clock| clock.has_expired()) else { return };
    let Whose { kernel, place } = thread.whose();
    end(format_args!(
        "{}",
        Fault { kernel, place, location: None, kind: clock.fault(), seed: thread.grid().seed }
    ));
}

/// Writes one line and ends the program.
fn end(message: fmt::Arguments<'_>) -> ! {
    write_error(message);
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}

/// Writes one line.
fn write_error(message: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 512], len: 0 };
    // A line that is too long is cut.
    let _ = writeln!(line, "error: {message}");
    // SAFETY: the first `len` bytes of the line are readable.
    unsafe { libc::write(libc::STDERR_FILENO, line.text.as_ptr().cast(), line.len) };
}

/// An address, if it is known.
struct Address(Option<usize>);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "the address {address:#x}"),
            None => f.write_str("an address"),
        }
    }
}

/// # Safety
/// `machine` is an argument of a signal handler.
#[cfg(target_arch = "x86_64")]
unsafe fn stack_pointer(machine: *const libc::ucontext_t) -> Option<usize> {
    // SAFETY: the caller promises it.
    let register = unsafe { (*machine).uc_mcontext.gregs[libc::REG_RSP as usize] };
    Some(register as usize)
}

/// # Safety
/// `machine` is an argument of a signal handler.
#[cfg(target_arch = "aarch64")]
unsafe fn stack_pointer(machine: *const libc::ucontext_t) -> Option<usize> {
    // SAFETY: the caller promises it.
    Some(unsafe { (*machine).uc_mcontext.sp } as usize)
}

/// # Safety
/// Calling it is always sound.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn stack_pointer(_: *const libc::ucontext_t) -> Option<usize> {
    None
}

/// Returns whether the access was a write, if the processor reports it.
///
/// # Safety
/// `machine` is an argument of a signal handler.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(machine: *const libc::ucontext_t) -> Option<bool> {
    // SAFETY: the caller promises it.
    let error = unsafe { (*machine).uc_mcontext.gregs[libc::REG_ERR as usize] };
    Some(error & 2 != 0)
}

/// # Safety
/// Calling it is always sound.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_write(_: *const libc::ucontext_t) -> Option<bool> {
    None
}

/// A text buffer of fixed size.
struct Line {
    text: [u8; 512],
    len: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        if len < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
