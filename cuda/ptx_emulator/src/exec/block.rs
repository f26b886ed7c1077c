//! A block: its threads take turns until they wait for each other, and go on once all have arrived. When the remaining
//! threads only wait for other blocks, those get a turn.

use std::collections::BTreeMap;

use super::counts::event::Collective;
use super::counts::meet;
use super::counts::trace::Trace;
use super::frame::Frame;
use super::grid::{Exec, Grid, Turns, unravel};
use super::polls::Turn;
use super::row::{Counts, Flow, Run};
use super::shadow::Memory;
use super::shared::Shared;
use super::space::function_at;
use super::table::{TABLE, UNKNOWN};
use super::thread::{Cx, Ids, State, Thread};
use super::wait::{BarrierWait, Lanes, Wait, WarpWait};
use super::wgmma::group::Warpgroup;
use crate::error::{Cause, Fault};
use crate::instr::{Callee, Instr, ParamRange, SINK, Slot, WARP, WARPGROUP};

/// Instructions that a thread executes before another gets a turn, because it may be spinning on a store of the other.
const TURN: u64 = 100_000;

pub(crate) struct Block<'a> {
    pub grid: &'a Grid<'a>,
    pub ctaid: [u32; 3],
    pub threads: Vec<Thread>,
    pub warpgroups: Vec<Warpgroup>,
    /// By thread, its trace, if the launch is counted.
    traces: Vec<Trace>,
    pub steps: u64,
}

/// The failed thread, and its fault.
pub(crate) type Failed = (usize, Box<Cause>);

impl<'a> Block<'a> {
    /// Creates a block with this rank in its cluster; its threads have not started.
    pub fn new(grid: &'a Grid<'a>, ctaid: [u32; 3], rank: u32) -> Self {
        let [x, y, z] = grid.block;
        let thread = |index: u32| {
            let (tid, lane, warp) = (unravel(index.into(), grid.block), index % 32, index / 32);
            Thread::new(grid, Ids { tid, ctaid, lane, warp, rank })
        };
        let traces = if grid.tally.is_some() { x * y * z } else { 0 };
        let traces = (0..traces).map(|_| Trace::default()).collect();
        let threads: Vec<Thread> = (0..x * y * z).map(thread).collect();
        let warpgroups = threads.chunks(WARPGROUP).map(|_| Warpgroup::default()).collect();
        Block { grid, ctaid, threads, warpgroups, traces, steps: 0 }
    }

    /// Runs the threads until each has exited, waits for other threads, or waits for a store that has not been made. Returns
    /// the turn's result: `Stood` also if all threads wait at the cluster barrier or have exited.
    pub fn run(&mut self, shared: &mut Shared) -> Result<Turn, Box<Fault>> {
        self.run_threads(shared).map_err(|(thread, cause)| self.fault(thread, *cause))
    }

    fn run_threads(&mut self, shared: &mut Shared) -> Result<Turn, Failed> {
        let mut whole = Turn::Stood;
        loop {
            let stores = self.grid.progress.stores.get();
            let (mut has_run, mut has_moved, mut pass) = (false, false, Turn::Stood);
            for at in self.grid.turns.of(self.threads.len()) {
                if matches!(self.threads[at].state, State::Ready) {
                    has_run = true;
                    let turn = match self.traces.is_empty() {
                        true => self.turn(at, shared, TURN),
                        false => self.counted_turn(at, shared),
                    };
                    match turn.map_err(|cause| (at, cause))? {
                        Turn::Moved => has_moved = true,
                        Turn::Looked => pass = Turn::Looked,
                        Turn::Stood => {}
                    }
                }
                let is_last_of_warp = match self.grid.turns {
                    Turns::Ascending => at % WARP == WARP - 1 || at + 1 == self.threads.len(),
                    Turns::Descending => at % WARP == 0,
                };
                if let (Some(tally), true) = (self.grid.tally, is_last_of_warp) {
                    let first = at - at % WARP;
                    let lanes = first..self.threads.len().min(first + WARP);
                    meet(&self.threads[lanes.clone()], &mut self.traces[lanes], tally);
                }
            }
            if self.steps > self.grid.max_steps {
                return Err((0, Cause::Steps(self.steps).into()));
            }
            let rests = |state: &State| matches!(state, State::Exited | State::Waits(Wait::Cluster { .. }));
            let all_rest = self.threads.iter().all(|thread| rests(&thread.state));
            if !all_rest {
                let released = self.release_warps(shared)? | self.release_barriers(shared)?;
                let is_idle = !(released || has_moved || stores != self.grid.progress.stores.get());
                let released = self.release_warpgroups(shared, is_idle)? | released;
                // Threads that still run may join those that ask for the active mask.
                let released = released || !has_run && self.release_active_masks();
                if !released && !has_run {
                    return Err(self.why_stuck());
                }
                has_moved |= released;
            }
            has_moved |= stores != self.grid.progress.stores.get();
            if has_moved {
                whole = Turn::Moved;
            } else if pass == Turn::Looked && whole == Turn::Stood {
                whole = Turn::Looked;
            }
            if all_rest || !has_moved {
                return Ok(whole);
            }
        }
    }

    /// Same as [`Self::turn`], and records before each instruction what it is going to do.
    fn counted_turn(&mut self, at: usize, shared: &mut Shared) -> Exec<Turn> {
        let end = self.steps + TURN;
        while self.steps < end {
            let (thread, trace) = (&mut self.threads[at], &mut self.traces[at]);
            trace.follow(self.grid.module, &thread.frames);
            if let Some(cx) = thread.cx(self.grid, shared, self.steps) {
                trace.note(&cx)?;
            }
            let turn = self.turn(at, shared, 1)?;
            if turn != Turn::Moved || !matches!(self.threads[at].state, State::Ready) {
                return Ok(turn);
            }
        }
        Ok(Turn::Moved)
    }

    /// Runs a thread until it waits, ends, has executed `most` instructions, or has polled in vain.
    fn turn(&mut self, at: usize, shared: &mut Shared, most: u64) -> Exec<Turn> {
        let Block { grid, threads, steps, .. } = self;
        let thread = &mut threads[at];
        let end = *steps + most;
        'call: loop {
            let Some(mut cx) = thread.cx(grid, shared, *steps) else { return Ok(Turn::Moved) };
            let function = &grid.module.functions[cx.frame.function];
            while *steps < end {
                *steps += 1;
                cx.clock = *steps;
                grid.pass(1);
                let instr = &function.instrs[cx.frame.pc];
                if let Some((slot, inverted)) = instr.guard
                    && (cx.value(slot)? == 0) != inverted
                {
                    cx.frame.pc += 1;
                    continue;
                }
                match cx.step(instr)? {
                    Flow::Next => cx.frame.pc += 1,
                    Flow::Jump(pc) => cx.frame.pc = pc as usize,
                    Flow::Polled(Turn::Moved) => cx.frame.pc += 1,
                    Flow::Polled(turn) => {
                        cx.frame.pc += 1;
                        return Ok(turn);
                    }
                    Flow::Yield => {
                        cx.frame.pc += 1;
                        return Ok(Turn::Looked);
                    }
                    Flow::Wait(wait) => {
                        thread.state = State::Waits(wait);
                        return Ok(Turn::Moved);
                    }
                    Flow::Exit => {
                        cx.end_bulk_stores()?;
                        thread.state = State::Exited;
                        self.check_wgmma_end(at)?;
                        return Ok(Turn::Moved);
                    }
                    Flow::Call => {
                        let (callee, params, result) = arguments(&cx, instr)?;
                        cx.frame.pc += 1;
                        thread.polls.forget_state();
                        thread.enter(grid, callee, params, result);
                        continue 'call;
                    }
                    Flow::Return => {
                        let Thread { frames, local, .. } = &mut *thread;
                        if !leave(grid, frames, local) {
                            if let Some(mut cx) = thread.cx(grid, shared, *steps) {
                                cx.end_bulk_stores()?;
                            }
                            thread.state = State::Exited;
                            self.check_wgmma_end(at)?;
                            return Ok(Turn::Moved);
                        }
                        continue 'call;
                    }
                }
            }
            return Ok(Turn::Moved);
        }
    }

    /// The context for a step of a thread that has not ended.
    pub fn cx<'t>(&'t mut self, at: usize, shared: &'t mut Shared) -> Option<Cx<'t>> {
        self.threads[at].cx(self.grid, shared, self.steps)
    }

    /// Gives results to a waiting thread, and lets it go on.
    pub fn resume(&mut self, at: usize, results: [(Slot, u64); 2]) {
        let thread = &mut self.threads[at];
        thread.state = State::Ready;
        if let Some(frame) = thread.frames.last_mut() {
            frame.pc += 1;
            results.into_iter().for_each(|(slot, value)| frame.set(slot, value));
        }
    }

    /// The barrier of the block that a thread waits at.
    pub fn barrier(&self, at: usize) -> Option<BarrierWait> {
        match self.threads[at].state {
            State::Waits(Wait::Barrier(wait)) => Some(wait),
            _ => None,
        }
    }

    /// The function and instruction of a thread.
    pub fn place(&self, at: usize) -> (usize, usize) {
        self.threads[at].frames.last().map_or((0, 0), |frame| (frame.function, frame.pc))
    }

    /// The instruction that a thread is at.
    pub fn instr(&self, at: usize) -> &'a Instr {
        let (function, pc) = self.place(at);
        &self.grid.module.functions[function].instrs[pc]
    }

    /// The warp operations that the lanes wait in; the warp starts at thread `first`.
    pub fn lanes(&self, first: usize) -> Lanes {
        core::array::from_fn(|lane| match self.threads.get(first + lane)?.state {
            State::Waits(Wait::Warp(wait)) => Some(wait),
            _ => None,
        })
    }

    fn release_warps(&mut self, shared: &mut Shared) -> Result<bool, Failed> {
        let mut any = false;
        for first in (0..self.threads.len()).step_by(WARP) {
            let lanes = self.lanes(first);
            for lane in 0..WARP {
                let Some(own) = lanes[lane] else { continue };
                if missing(&lanes, &own).is_none() {
                    if own.kind.0 == UNKNOWN && lane == 0 {
                        self.execute_tensor(first, shared)?;
                    }
                    let (value, predicate) = match TABLE[usize::from(own.kind.0)].run {
                        Run::Lanes(outcome) => {
                            outcome(&lanes, lane as u32, &own).map_err(|cause| (first + lane, cause))?
                        }
                        _ => (0, false),
                    };
                    if let Some(races) = &self.grid.races
                        // The only warp operation that orders accesses to memory.
                        && let Counts::Collective(Collective::WarpBarrier) = TABLE[usize::from(own.kind.0)].counts
                    {
                        let number = self.grid.block_number(self.ctaid);
                        races.borrow_mut().pass_warp(number, (first / WARP) as u32);
                    }
                    self.resume(first + lane, [(own.d, value), (own.p, u64::from(predicate))]);
                    any = true;
                }
            }
        }
        Ok(any)
    }

    /// Executes the matrix instruction at which the lanes of the warp that starts at thread `first` wait.
    fn execute_tensor(&mut self, first: usize, shared: &mut Shared) -> Result<(), Failed> {
        let place = self.place(first);
        if let Some(other) = (first..first + WARP).find(|&at| self.place(at) != place) {
            let (missing, instead) = (self.threads[other].ids.lane, self.doing(other));
            return Err((first, Cause::Mask { lane: 0, mask: u32::MAX, missing, instead }.into()));
        }
        let instr = self.instr(first);
        let Run::Warp(run) = TABLE[usize::from(instr.row)].run else { return Ok(()) };
        let mut last = first;
        let mut with = |lane: usize, f: &mut dyn FnMut(&mut Cx<'_>) -> Exec| {
            last = first + lane;
            self.cx(last, shared).map_or(Ok(()), |mut cx| f(&mut cx).and_then(|()| cx.check_accesses()))
        };
        run(instr, &mut with).map_err(|cause| (last, cause))
    }

    /// Counts lanes that ask for the active mask at the same instruction as active together, in the largest possible groups.
    fn release_active_masks(&mut self) -> bool {
        let mut groups = BTreeMap::<_, (u64, Vec<(usize, Slot)>)>::new();
        for at in 0..self.threads.len() {
            if let State::Waits(Wait::ActiveMask { d }) = self.threads[at].state {
                let (mask, members) = groups.entry((at / WARP, self.place(at))).or_default();
                *mask |= 1 << (at % WARP);
                members.push((at, d));
            }
        }
        for (mask, members) in groups.values() {
            members.iter().for_each(|&(at, d)| self.resume(at, [(d, *mask), (SINK, 0)]));
        }
        !groups.is_empty()
    }

    pub fn doing(&self, at: usize) -> String {
        match self.threads.get(at).map(|thread| &thread.state) {
            None => "does not exist".to_owned(),
            Some(State::Exited) => format!("has exited at PTX line {}", self.line(at)),
            Some(_) => format!("waits at PTX line {}", self.line(at)),
        }
    }

    /// The PTX line of a thread.
    pub fn line(&self, at: usize) -> u32 {
        let (function, pc) = self.place(at);
        self.grid.module.functions[function].instrs.get(pc).map_or(1, |instr| instr.line)
    }

    pub fn fault(&self, at: usize, cause: Cause) -> Box<Fault> {
        let module = self.grid.module;
        let line = self.line(at);
        Box::new(Fault {
            kernel: module.functions[self.grid.kernel].name.clone(),
            block: self.ctaid,
            thread: self.threads[at].ids.tid,
            function: module.functions[self.place(at).0].name.clone(),
            line,
            instruction: module.line(line).to_owned(),
            cause,
        })
    }
}

/// The called function, its parameters with the arguments in them, and where the return value belongs.
fn arguments(cx: &Cx<'_>, instr: &Instr) -> Exec<(usize, Memory, Option<ParamRange>)> {
    let functions = &cx.grid.module.functions;
    let unknown = || Cause::Unsupported("a call of an unknown function".to_owned());
    let call = instr.more().call.as_ref().ok_or_else(unknown)?;
    let callee = match call.callee {
        Callee::Index(callee) => callee,
        Callee::Address(slot) => {
            let address = cx.value(slot)?;
            let callee = function_at(address).filter(|&index| index < functions.len());
            let callee = callee.ok_or(Cause::NoFunction { address })?;
            let sizes = |ranges: &[ParamRange]| ranges.iter().map(|range| range.bytes).collect::<Vec<_>>();
            let (of, result) = (&functions[callee], call.result.map(|range| range.bytes));
            let fits = sizes(&call.args) == sizes(&of.params) && result == of.result.map(|range| range.bytes);
            if !fits || of.is_entry {
                let name = of.name.clone();
                return Err(Cause::WrongCall { name }.into());
            }
            callee
        }
        Callee::Name(_) | Callee::System(_) => return Err(unknown().into()),
    };
    let of = &functions[callee];
    let mut params = Memory::new(of.param_bytes as usize);
    for (from, to) in call.args.iter().zip(&of.params) {
        params.copy(to.offset as usize, &cx.frame.params, from.offset as usize, from.bytes as usize);
    }
    Ok((callee, params, call.result))
}

/// Ends the running function and returns its value to the caller; false if it was the kernel.
fn leave(grid: &Grid<'_>, frames: &mut Vec<Frame>, local: &mut Memory) -> bool {
    if frames.len() == 1 {
        return false;
    }
    let Some(callee) = frames.pop() else { return false };
    local.resize(callee.local_base);
    let from = grid.module.functions[callee.function].result;
    if let (Some(caller), Some(from), Some(to)) = (frames.last_mut(), from, callee.result) {
        caller.params.copy(to.offset as usize, &callee.params, from.offset as usize, from.bytes as usize);
    }
    true
}

/// Finds a lane of the mask that does not wait in the same operation with the same mask.
pub(crate) fn missing(lanes: &Lanes, own: &WarpWait) -> Option<u32> {
    let takes_part =
        |lane: u32| lanes[lane as usize].is_some_and(|wait| wait.mask == own.mask && wait.kind == own.kind);
    (0..WARP as u32).find(|&lane| own.mask & (1 << lane) != 0 && !takes_part(lane))
}
