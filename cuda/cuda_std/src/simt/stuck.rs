//! Finds the thread at fault when a block or a cluster cannot go on, in the same way for every scheduler.

use super::block::Block;
use super::collective::{self, Lane, MaskError};
use super::context::{Collective, Lack, Request, WARP_SIZE};
use super::fault::{Fault, FaultKind, Instead, Place, StuckWait};

/// What the threads of a block wait for, while none of them runs.
pub(super) struct View<'a> {
    block: &'a Block<'a>,
    /// By thread; `None` if the thread has returned.
    requests: Vec<Option<Request>>,
}

impl<'a> View<'a> {
    /// Creates a view. `requests` are sorted by thread; threads that are left out do not wait.
    pub fn new(block: &'a Block<'a>, requests: impl Iterator<Item = Option<Request>>) -> Self {
        let mut requests: Vec<_> = requests.collect();
        requests.resize(block.threads as usize, None);
        Self { block, requests }
    }

    fn request(&self, thread: u32) -> Option<&Request> {
        self.requests.get(thread as usize)?.as_ref()
    }

    fn lanes(&self, warp: u32) -> collective::Lanes<'_> {
        core::array::from_fn(|lane| match self.requests.get((warp * WARP_SIZE) as usize + lane) {
            None => Lane::Absent,
            Some(request) => request.as_ref().map_or(Lane::Returned, Lane::Waits),
        })
    }

    /// Returns the fault of a block in which no thread can continue. Returns `None` if all its threads wait for the
    /// cluster, or have returned.
    pub fn why_stuck(&self) -> Option<Fault> {
        for warp in 0..self.block.threads.div_ceil(WARP_SIZE) {
            if let Some(error) = collective::why_stuck(&self.lanes(warp)) {
                return Some(self.mask_fault(warp, error));
            }
        }
        self.why_apart().or_else(|| self.why_in_phase())
    }

    /// Returns the fault of a thread that waits on its own; `None` if there is no such thread.
    fn why_in_phase(&self) -> Option<Fault> {
        (0..self.block.threads).find_map(|thread| {
            let request = self.request(thread)?;
            let Collective::Wait(wait) = &request.collective else { return None };
            let operation = request.name;
            // SAFETY: the thread is in this wait.
            let kind = match unsafe { (wait.kind.lacks)(wait, self.block.shared, operation) }? {
                Lack::Fault(kind) => kind,
                Lack::Thread(missing) => FaultKind::WarpgroupIncomplete {
                    operation,
                    missing: self.block.coordinates(missing),
                    instead: self.instead(missing),
                },
            };
            Some(self.block.fault_of(Some(thread), Some(request.location.into()), kind))
        })
    }

    /// Returns the fault of a block if some threads wait at a barrier and others do not; `None` if no thread waits at a
    /// barrier of the block, or all wait at the same one.
    pub fn why_apart(&self) -> Option<Fault> {
        let is_in_barrier = |request: &&Request| collective::is_block_barrier(request);
        let (waiting, request) = (0..self.block.threads)
            .find_map(|thread| Some((thread, self.request(thread).filter(is_in_barrier)?)))?;
        let missing = self.missing_at(request)?;
        let kind = FaultKind::BarrierNotReached {
            barrier: request.name,
            missing: self.block.coordinates(missing),
            instead: self.instead(missing),
        };
        Some(self.block.fault_of(Some(waiting), Some(request.location.into()), kind))
    }

    /// Returns a thread that does not wait at this barrier of block or cluster.
    fn missing_at(&self, barrier: &Request) -> Option<u32> {
        let waits =
            |thread| self.request(thread).is_some_and(|request| collective::same_barrier(request, barrier));
        (0..self.block.threads).find(|&thread| !waits(thread))
    }

    /// Returns what the thread does instead of what others wait for.
    fn instead(&self, thread: u32) -> Instead {
        match self.request(thread) {
            None if thread >= self.block.threads => Instead::DoesNotExist,
            None => Instead::Returned,
            Some(request) => Instead::WaitsIn { operation: request.name, at: request.location.into() },
        }
    }

    /// Creates the fault of a warp whose mask breaks a rule.
    pub fn mask_fault(&self, warp: u32, error: MaskError) -> Fault {
        let first = warp * WARP_SIZE;
        let (MaskError::CallerNotInMask { lane, .. } | MaskError::NotTakingPart { lane, .. }) = error;
        let request = self.request(first + lane);
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

/// Returns the fault of a cluster whose threads do not all wait at one barrier of the cluster; `None` if no thread
/// waits at one, or all do.
pub(super) fn why_cluster_stuck(blocks: &[View<'_>]) -> Option<Fault> {
    let in_cluster = |view: &View<'_>| {
        let requests = view.requests.iter().enumerate();
        requests
            .filter_map(|(thread, request)| Some((thread as u32, (*request)?)))
            .find(|(_, request)| collective::is_cluster_barrier(request))
    };
    let (waiting, (thread, request)) =
        blocks.iter().find_map(|view| Some((view.block, in_cluster(view)?)))?;
    let (view, missing) = blocks.iter().find_map(|view| Some((view, view.missing_at(&request)?)))?;
    let kind = FaultKind::ClusterBarrierNotReached {
        barrier: request.name,
        block: view.block.index,
        missing: view.block.coordinates(missing),
        instead: view.instead(missing),
    };
    Some(waiting.fault_of(Some(thread), Some(request.location.into()), kind))
}

/// Returns the fault of a stuck grid with threads that wait for words; `None` if no thread waits for words.
pub(super) fn why_words_stuck(blocks: &[View<'_>]) -> Option<Fault> {
    let mut waits: Vec<(StuckWait, bool)> = Vec::new();
    for View { block, requests } in blocks {
        for (thread, request) in requests.iter().enumerate() {
            let Some(Request { name, collective, location }) = *request else { continue };
            let at = location.into();
            match waits.iter_mut().find(|(wait, _)| (wait.operation, &wait.at) == (name, &at)) {
                Some((wait, _)) => wait.threads += 1,
                None => {
                    let first = Place { block: block.index, thread: Some(block.coordinates(thread as u32)) };
                    let is_for_words = matches!(collective, Collective::Words | Collective::Wait(_));
                    waits.push((StuckWait { operation: name, at, threads: 1, first }, is_for_words));
                }
            }
        }
    }
    // Waits for words come first: the threads at a barrier wait for those threads.
    waits.sort_by_key(|(_, is_for_words)| !is_for_words);
    let (StuckWait { at, first, .. }, is_for_words) = waits.first()?.clone();
    let mut fault = is_for_words.then(|| {
        let waits = waits.into_iter().map(|(wait, _)| wait).collect();
        blocks[0].block.fault_of(None, Some(at), FaultKind::Stuck { waits })
    })?;
    fault.place = first;
    Some(fault)
}

/// Returns a fault without details, for an unknown cause.
pub(super) fn unknown(block: &Block<'_>) -> Fault {
    block.fault_of(None, None, FaultKind::Panic { message: "no thread can continue".into() })
}
