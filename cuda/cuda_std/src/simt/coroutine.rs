//! The scheduler of a block: every GPU thread is a stackful coroutine on the OS thread that runs the block.
//!
//! A fiber runs threads until one of them has to wait, which then keeps the fiber; the next threads get another
//! one. So a kernel without collectives costs one fiber a block and no switch. When no thread can run, the
//! requests are resolved: the block's barrier if all threads wait there, else the warps' operations.

use corosensei::CoroutineResult;

use super::context::{Barrier, Collective, Outcome, Request, WARP_SIZE};
use super::fault::{Fault, FaultKind, Instead, SourceLine};
use super::fiber::{Block, Team};
use super::rendezvous::{self, Lane, MaskError};

pub(crate) use super::fiber::Port;

/// What a thread that has started is doing while no thread runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has returned from the kernel.
    Returned,
    /// It waits at a barrier of the block.
    InBarrier,
    /// It waits at the barrier of the cluster.
    InCluster,
    /// It waits in an operation of its warp.
    InWarpOp,
}

/// A thread, from its first wait on.
#[derive(Clone, Copy)]
struct Slot {
    state: State,
    /// Number of its fiber.
    fiber: u32,
    /// Valid while the fiber is suspended.
    port: *const Port,
}

impl Slot {
    const EMPTY: Slot = Slot { state: State::Returned, fiber: 0, port: core::ptr::null() };

    fn request(&self) -> Option<&Request> {
        match self.state {
            State::Returned => None,
            State::InBarrier | State::InCluster | State::InWarpOp => {
                // SAFETY: the thread is suspended in `Port::wait`, so the port and the request that it points to
                // live on its stack.
                Some(unsafe { &*(*self.port).request.get() })
            }
        }
    }

    fn set_outcome(&self, outcome: Outcome) {
        if self.state != State::Returned {
            // SAFETY: as above.
            unsafe { &*self.port }.outcome.set(outcome);
        }
    }
}

pub(super) struct Scheduler<'a> {
    block: &'a Block<'a>,
    team: Team,
    /// Fibers of the team that hold a thread, or held one.
    busy_fibers: usize,
    /// By thread; empty as long as no thread has waited.
    slots: Vec<Slot>,
    in_barrier: u32,
    in_cluster: u32,
    in_warp_op: u32,
}

impl<'a> Scheduler<'a> {
    pub fn new(block: &'a Block<'a>) -> Self {
        Self {
            block,
            team: Team::take(),
            busy_fibers: 0,
            slots: Vec::new(),
            in_barrier: 0,
            in_cluster: 0,
            in_warp_op: 0,
        }
    }

    /// Keeps the fibers for another block. All threads have returned or were unwound.
    pub fn end(self) {
        self.team.give_back();
    }

    /// Runs the threads that have started until all have returned or wait at the barrier of the cluster.
    pub fn advance(&mut self) -> Result<(), Box<Fault>> {
        while self.in_barrier + self.in_warp_op > 0 {
            if self.in_barrier == self.block.threads {
                self.release_barrier()?;
            } else if !self.run_warps()? {
                let fault = self.why_stuck();
                return Err(self.fail(fault));
            }
        }
        Ok(())
    }

    /// Whether all threads have returned, of those that have started.
    pub fn has_ended(&self) -> bool {
        self.in_barrier + self.in_cluster + self.in_warp_op == 0
    }

    /// Lets all threads go on that wait at the barrier of the cluster.
    pub fn release_cluster(&mut self) -> Result<(), Box<Fault>> {
        // A thread that comes to the barrier anew waits for the next time.
        (0..self.slots.len()).try_for_each(|thread| self.resume(thread))
    }

    /// Starts every thread, each of which runs until it waits or returns.
    pub fn start_all(&mut self) -> Result<(), Box<Fault>> {
        while self.block.next_thread.get() < self.block.threads {
            let number = self.busy_fibers;
            // The fiber's type wants 'static; when `run` returns, none works for the block any longer.
            let block = core::ptr::from_ref(self.block).cast();
            let started = self.team.fiber(number).map(|fiber| fiber.resume(block));
            match started {
                Ok(CoroutineResult::Yield(port)) if !port.is_null() => {
                    self.busy_fibers += 1;
                    if self.slots.is_empty() {
                        self.slots.resize(self.block.threads as usize, Slot::EMPTY);
                    }
                    // SAFETY: the fiber is suspended, and its port lives on its stack.
                    let thread = unsafe { &*port }.thread.get() as usize;
                    self.slots[thread] = Slot { state: State::Returned, fiber: number as u32, port };
                    self.has_suspended(thread);
                }
                // Idle again: the threads it ran have returned.
                Ok(_) => self.check_fault()?,
                Err(error) => {
                    let kind = FaultKind::OutOfStacks { message: error.to_string() };
                    let fault = self.block.fault_of(None, None, kind);
                    return Err(self.fail(fault));
                }
            }
        }
        Ok(())
    }

    /// Lets a waiting thread run until it waits again or returns.
    #[inline(always)]
    fn resume(&mut self, thread: usize) -> Result<(), Box<Fault>> {
        let Slot { state, fiber, .. } = &mut self.slots[thread];
        match state {
            State::InBarrier => self.in_barrier -= 1,
            State::InCluster => self.in_cluster -= 1,
            State::InWarpOp => self.in_warp_op -= 1,
            State::Returned => return Ok(()),
        }
        *state = State::Returned;
        match self.team.fibers[*fiber as usize].resume(core::ptr::from_ref(self.block).cast()) {
            CoroutineResult::Yield(port) if !port.is_null() => {
                self.has_suspended(thread);
                Ok(())
            }
            // Idle again: the thread has returned.
            _ => self.check_fault(),
        }
    }

    #[inline(always)]
    fn has_suspended(&mut self, thread: usize) {
        let slot = &mut self.slots[thread];
        // SAFETY: the fiber is suspended in `Port::wait`, so the port and its request live on its stack.
        match unsafe { &*(*slot.port).request.get() }.collective {
            Collective::Barrier(_) => {
                slot.state = State::InBarrier;
                self.in_barrier += 1;
            }
            Collective::Cluster => {
                slot.state = State::InCluster;
                self.in_cluster += 1;
            }
            Collective::Warp { .. } => {
                slot.state = State::InWarpOp;
                self.in_warp_op += 1;
            }
        }
    }

    #[inline(never)]
    fn check_fault(&mut self) -> Result<(), Box<Fault>> {
        let fault = self.block.fault.borrow_mut().take();
        fault.map_or(Ok(()), |fault| Err(self.fail(fault)))
    }

    /// Unwinds every suspended thread, and hands the fault on.
    #[cold]
    pub fn fail(&mut self, fault: Fault) -> Box<Fault> {
        *self.block.fault.borrow_mut() = Some(fault.clone());
        for slot in self.slots.drain(..).filter(|slot| slot.state != State::Returned) {
            self.team.fibers[slot.fiber as usize].force_unwind();
        }
        Box::new(fault)
    }

    /// Lets all threads go on, which all wait at a barrier; it must be the same one.
    fn release_barrier(&mut self) -> Result<(), Box<Fault>> {
        let mut requests = self.slots.iter().filter_map(Slot::request);
        let Some(first) = requests.next() else {
            return Ok(());
        };
        if !requests.all(|request| rendezvous::same_barrier(first, request)) {
            let fault = self.why_stuck();
            return Err(self.fail(fault));
        }
        if first.collective != Collective::Barrier(Barrier::Sync) {
            let outcome = rendezvous::barrier_outcome(self.slots.iter().filter_map(Slot::request));
            self.slots.iter().for_each(|slot| slot.set_outcome(outcome));
        }
        for thread in 0..self.slots.len() {
            self.resume(thread)?;
        }
        Ok(())
    }

    /// Completes warp operations and runs their lanes until none can go on. Whether any could.
    fn run_warps(&mut self) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        for warp in 0..self.block.live_lanes.len() {
            while self.in_warp_op > 0 {
                let done = match rendezvous::complete_warp_ops(&self.lanes(warp)) {
                    Ok(done) => done,
                    Err(error) => {
                        let fault = self.mask_fault(warp, error);
                        return Err(self.fail(fault));
                    }
                };
                if done.lanes == 0 {
                    break;
                }
                progress = true;
                let first = warp * WARP_SIZE as usize;
                for lane in (0..WARP_SIZE as usize).filter(|lane| done.lanes & (1 << lane) != 0) {
                    self.slots[first + lane].set_outcome(done.outcomes[lane]);
                    self.resume(first + lane)?;
                }
            }
        }
        Ok(progress)
    }

    fn lanes(&self, warp: usize) -> rendezvous::Lanes<'_> {
        core::array::from_fn(|lane| match self.slots.get(warp * WARP_SIZE as usize + lane) {
            None => Lane::Absent,
            Some(slot) => slot.request().map_or(Lane::Returned, Lane::Waits),
        })
    }

    /// The fault of a block in which nobody can go on.
    #[cold]
    fn why_stuck(&self) -> Fault {
        for warp in 0..self.block.live_lanes.len() {
            if let Some(error) = rendezvous::why_stuck(&self.lanes(warp)) {
                return self.mask_fault(warp, error);
            }
        }
        let waiting = self.slots.iter().position(|slot| slot.state == State::InBarrier).unwrap_or_default();
        let request = self.slots[waiting].request();
        let missing = self.slots.iter().position(|slot| match (slot.request(), request) {
            (Some(a), Some(b)) => !rendezvous::same_barrier(a, b),
            _ => true,
        });
        let missing = missing.unwrap_or_default() as u32;
        let kind = FaultKind::BarrierNotReached {
            barrier: request.map_or("a barrier", |request| request.name),
            missing: self.block.coordinates(missing),
            instead: self.instead(missing),
        };
        self.block.fault_of(Some(waiting as u32), request.map(|request| request.location.into()), kind)
    }

    /// A thread that waits at the barrier of the cluster, and what it asked for.
    pub fn in_cluster(&self) -> Option<(u32, &Request)> {
        let waiting = self.slots.iter().position(|slot| slot.state == State::InCluster)?;
        Some((waiting as u32, self.slots[waiting].request()?))
    }

    /// A thread that does not wait at this barrier of the cluster.
    pub fn missing_in_cluster(&self, barrier: &Request) -> Option<u32> {
        let waits =
            |slot: &Slot| slot.request().is_some_and(|request| rendezvous::same_barrier(request, barrier));
        if self.slots.is_empty() {
            return Some(0);
        }
        self.slots.iter().position(|slot| !waits(slot)).map(|thread| thread as u32)
    }

    /// The block it schedules.
    pub fn block(&self) -> &'a Block<'a> {
        self.block
    }

    /// What the thread does that others wait for in vain.
    pub fn instead(&self, thread: u32) -> Instead {
        match self.slots.get(thread as usize).map(Slot::request) {
            None if thread < self.block.threads => Instead::Returned,
            None => Instead::DoesNotExist,
            Some(None) => Instead::Returned,
            Some(Some(request)) => {
                Instead::WaitsIn { operation: request.name, at: SourceLine::from(request.location) }
            }
        }
    }

    #[cold]
    fn mask_fault(&self, warp: usize, error: MaskError) -> Fault {
        let first = warp as u32 * WARP_SIZE;
        let (MaskError::CallerNotInMask { lane, .. } | MaskError::NotTakingPart { lane, .. }) = error;
        let request = self.slots[(first + lane) as usize].request();
        let operation = request.map_or("a warp operation", |request| request.name);
        let kind = match error {
            MaskError::CallerNotInMask { lane, mask } => FaultKind::CallerNotInMask { operation, mask, lane },
            MaskError::NotTakingPart { mask, missing, .. } => FaultKind::LaneNotTakingPart {
                operation,
                mask,
                lane: missing,
                instead: self.instead(first + missing),
            },
        };
        self.block.fault_of(Some(first + lane), request.map(|request| request.location.into()), kind)
    }
}
