//! Multiplications on the executor, which keeps them until a thread waits for their group.
//!
//! The threads of a warpgroup share what they have started (`warpgroup.rs`). The first one that waits multiplies for
//! all of them. So operands are decoded once, and have been read when that wait ends. Threads that are OS threads share
//! it too, under a lock. So calls of this module may order more than a GPU does, and may hide a race from Miri.

mod product;
mod view;
pub(crate) mod warpgroup;

use core::panic::Location;
use std::collections::VecDeque;
use std::panic::resume_unwind;

use super::Number;
use crate::simt::FaultKind;
use crate::simt::context::{Collective, Lack, ThreadContext, Wait, WaitKind, collective, current, unwinds};
use crate::simt::shared::BlockShared;
use crate::simt::states::State;
use crate::tensor::Swizzle;

pub use view::View;

/// Threads of a warpgroup.
const THREADS: u32 = 128;

/// The name of the function that starts multiplications.
const MULTIPLY: &str = "wgmma::Pending::multiply";

/// The number of fences that the thread had called when registers were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

/// Where A lies.
#[derive(Clone, Copy, Debug)]
pub enum SourceA {
    /// In shared memory.
    Shared(View),
    /// In the registers of the threads.
    Registers([u32; 4], Stamp),
}

/// A thread's pending accumulators.
#[derive(Debug)]
pub struct Accumulators {
    /// Their number in the order of [`start`]: the same for all threads of the warpgroup.
    number: u32,
    registers: usize,
    made: Stamp,
    /// The number of the thread's multiplications up to the last one of these accumulators.
    last: u64,
    /// Where that one was started.
    location: &'static Location<'static>,
}

/// A multiplication as a thread requests it: the same for all threads of the warpgroup.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Call {
    location: &'static Location<'static>,
    number: Number,
    columns: usize,
    accumulators: u32,
    keep: bool,
    /// `None` if A is in registers.
    a: Option<View>,
    b: View,
}

/// What a thread has started.
#[derive(Default)]
pub(crate) struct Multiplications {
    /// The number of calls of [`start`].
    started: u32,
    fences: u32,
    /// The number of multiplications.
    issued: u64,
    /// For each group that the thread has not waited for, the number of multiplications up to its end.
    groups: VecDeque<u64>,
    /// The number of multiplications that the thread has waited for.
    waited: u64,
    /// Where the last one was started.
    last: Option<&'static Location<'static>>,
}

impl State for Multiplications {
    /// Checks, when the thread returns, that it has waited for all of them.
    fn end(self: Box<Self>) {
        if let Some(location) = self.last.filter(|_| self.issued > self.waited) {
            let kind = FaultKind::WgmmaNotWaitedFor { operation: MULTIPLY };
            resume_unwind(Box::new((kind, location)));
        }
    }
}

/// Hands what the thread has started to `f`.
fn with<R>(context: &ThreadContext<'_>, f: impl FnOnce(&mut Multiplications) -> R) -> R {
    context.channel.with_state(f)
}

/// Returns the value, or panics with the function's name.
#[track_caller]
fn checked<T>(name: &str, result: Result<T, String>) -> T {
    match result {
        Ok(value) => value,
        Err(reason) => panic!("{name}() {reason}"),
    }
}

/// Returns the thread's warpgroup, and its number there.
fn place(context: &ThreadContext<'_>) -> Result<(u32, u32), String> {
    let (threads, linear) = (context.block_dim.volume() as u32, context.linear);
    if (linear / THREADS + 1) * THREADS > threads {
        return Err(format!(
            "by thread {linear} of {threads}, whose warpgroup is not complete; launch a multiple of {THREADS} threads per block"
        ));
    }
    Ok((linear / THREADS, linear % THREADS))
}

/// Returns the number of the thread's fences so far.
#[track_caller]
pub(super) fn now(name: &'static str) -> Stamp {
    current(name, |context| with(context, |own| Stamp(own.fences)))
}

/// Takes the registers. A thread that unwinds starts, multiplies and waits for nothing.
#[track_caller]
pub(super) fn start(values: &[f32]) -> Accumulators {
    let (name, location) = ("wgmma::Accumulator::start", Location::caller());
    if unwinds() {
        return Accumulators { number: 0, registers: values.len(), made: Stamp(0), last: 0, location };
    }
    let started = current(name, |context| {
        let (warpgroup, thread) = place(context)?;
        let (number, made) = with(context, |own| {
            own.started += 1;
            (own.started - 1, Stamp(own.fences))
        });
        warpgroup::with(context.shared(), warpgroup, |group| group.start(number, thread, values))?;
        Ok(Accumulators { number, registers: values.len(), made, last: 0, location })
    });
    checked(name, started)
}

/// Counts a fence.
#[track_caller]
pub(super) fn fence() {
    current("wgmma::fence", |context| with(context, |own| own.fences += 1));
}

/// Starts a multiplication.
#[track_caller]
pub(super) fn multiply(accumulators: &mut Accumulators, (number, keep): (Number, bool), a: SourceA, b: View) {
    if unwinds() {
        return;
    }
    let location = Location::caller();
    let started = current(MULTIPLY, |context| {
        let (warpgroup, thread) = place(context)?;
        let shared = context.shared();
        let fences = with(context, |own| own.fences);
        check_fence(fences, accumulators.made, "the accumulators were written")?;
        let (columns, mut registers) = (2 * accumulators.registers, None);
        let a = match a {
            SourceA::Shared(view) => Some(view),
            SourceA::Registers(all, made) => {
                check_fence(fences, made, "A's registers were written")?;
                registers = Some(all);
                None
            }
        };
        for (view, of) in a.iter().map(|a| (a, "A")).chain([(&b, "B")]) {
            view.check(shared).map_err(|reason| format!("got {of} {reason}"))?;
        }
        let call = Call { location, number, columns, accumulators: accumulators.number, keep, a, b };
        let issued = with(context, |own| own.issued);
        warpgroup::with(shared, warpgroup, |group| {
            group.issue(thread, issued, call, registers, |chunks| {
                if !context.channel.is_fiber() {
                    return shared.check_fenced().map_err(|reason| format!("reads operands{reason}"));
                }
                let visible = shared.check_visible(chunks, Some(Swizzle::Bytes128));
                visible.map_err(|reason| format!("reads operands {reason}"))
            })
        })?;
        with(context, |own| {
            own.issued += 1;
            own.last = Some(location);
            (accumulators.last, accumulators.location) = (own.issued, location);
        });
        Ok(())
    });
    checked(MULTIPLY, started);
}

/// Checks that a fence came after registers were written.
fn check_fence(fences: u32, made: Stamp, what: &str) -> Result<(), String> {
    if fences > made.0 {
        Ok(())
    } else {
        Err(format!("without a fence after {what}; call wgmma::fence() between them"))
    }
}

/// Closes a group.
#[track_caller]
pub(super) fn commit() {
    current("wgmma::commit", |context| {
        with(context, |own| own.groups.push_back(own.issued));
    });
}

/// Waits for all groups except the latest `left`.
#[track_caller]
pub(super) fn wait(name: &'static str, left: usize) {
    if unwinds() {
        return;
    }
    let (place, bound) = current(name, |context| {
        let bound = with(context, |own| {
            while own.groups.len() > left {
                own.waited = own.groups.pop_front().unwrap_or(own.waited);
            }
            own.waited
        });
        (place(context), bound)
    });
    let (warpgroup, _) = checked(name, place);
    let wait = Wait { kind: &GROUP, state: core::ptr::null_mut(), number: warpgroup, bound };
    while !current(name, |context| can_go_on(&wait, context.shared())) {
        collective(name, Collective::Wait(wait));
    }
    let completed =
        current(name, |context| warpgroup::with(context.shared(), warpgroup, |group| group.complete(bound)));
    checked(name, completed);
}

/// The waits for a group of multiplications, until all threads of the warpgroup have started them. The wait has the
/// warpgroup's number and the number of the multiplications.
static GROUP: WaitKind = WaitKind {
    can_go_on: |wait, shared| can_go_on(wait, shared),
    lacks: |wait, shared, _| lacks(wait, shared),
};

fn can_go_on(wait: &Wait, shared: &BlockShared) -> bool {
    warpgroup::missing(shared, wait.number, wait.bound).is_none()
}

fn lacks(wait: &Wait, shared: &BlockShared) -> Option<Lack> {
    let missing = warpgroup::missing(shared, wait.number, wait.bound)?;
    Some(Lack::Thread(wait.number * THREADS + missing))
}

/// Returns the registers, after a wait for all groups except the latest `left`.
#[track_caller]
pub(super) fn finish(accumulators: Accumulators, left: usize, values: &mut [f32]) {
    if unwinds() {
        return;
    }
    let name = "wgmma::Pending::finish";
    let finished = current(name, |context| {
        let (warpgroup, thread) = place(context)?;
        let waited = with(context, |own| own.waited);
        if accumulators.last > waited {
            return Err(format!(
                "::<{left}>() does not wait for {MULTIPLY}() at {}, which writes the accumulators; commit its group, and leave \
                 fewer groups pending",
                accumulators.location
            ));
        }
        warpgroup::with(context.shared(), warpgroup, |group| {
            group.finish(accumulators.number, thread, values)
        });
        Ok(())
    });
    checked(name, finished);
}
