//! The thread of a communicator, which performs its operations. What a rank sends to another is a file in the world's folder.

use std::collections::HashMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use super::fake_nccl_elements::{combine, element_bytes};
use super::{Job, Kind, Operation, SUCCESS, Shared};

pub struct Worker {
    shared: Arc<Shared>,
    /// What has been sent to each rank, and received from it.
    sent: HashMap<usize, usize>,
    received: HashMap<usize, usize>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, sent: HashMap::new(), received: HashMap::new() }
    }

    pub fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let state = match job {
                Job::Connect => self.connect(),
                Job::Perform(operations) => self.perform(&operations),
                Job::Fail(code) => Some(code),
                Job::Stall => loop {
                    if self.shared.is_aborted.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(1));
                },
                Job::Finalize => Some(SUCCESS),
            };
            let Some(state) = state else { return };
            let is_last = self.shared.queued.fetch_sub(1, Ordering::Relaxed) == 1;
            if state != SUCCESS || is_last {
                self.shared.state.store(state, Ordering::Release);
            }
        }
    }

    /// No rank goes on before all have begun.
    fn connect(&mut self) -> Option<c_int> {
        let size = self.shared.size;
        (0..size).for_each(|peer| self.send(peer, &[]));
        (0..size).try_for_each(|peer| self.receive(peer).map(drop))?;
        Some(SUCCESS)
    }

    fn send(&mut self, to: usize, bytes: &[u8]) {
        let path = next(&self.shared, [self.shared.rank, to], self.sent.entry(to).or_default());
        // It appears complete.
        let part = path.with_extension("part");
        std::fs::write(&part, bytes).and_then(|()| std::fs::rename(part, path)).unwrap();
    }

    /// The next bytes from a rank; none after an abort.
    fn receive(&mut self, from: usize) -> Option<Vec<u8>> {
        let path = next(&self.shared, [from, self.shared.rank], self.received.entry(from).or_default());
        while !self.shared.is_aborted.load(Ordering::Relaxed) {
            if let Ok(bytes) = std::fs::read(&path) {
                std::fs::remove_file(&path).unwrap();
                return Some(bytes);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn perform(&mut self, operations: &[Operation]) -> Option<c_int> {
        let size = self.shared.size;
        for operation in operations {
            let parts = if matches!(operation.kind, Kind::ReduceScatter(_)) { size } else { 1 };
            let input = if operation.input == 0 { vec![] } else { operation.read(parts) };
            match operation.kind {
                Kind::Send(to) => self.send(to, &input),
                Kind::Receive(_) => {}
                Kind::Broadcast(root) if root != self.shared.rank => {}
                _ => (0..size).for_each(|to| self.send(to, &input)),
            }
        }
        operations.iter().try_for_each(|operation| self.finish(operation))?;
        Some(SUCCESS)
    }

    /// Waits for what the other ranks sent, and writes the output.
    fn finish(&mut self, operation: &Operation) -> Option<()> {
        let (rank, size) = (self.shared.rank, self.shared.size);
        let mut all = || (0..size).map(|from| self.receive(from)).collect::<Option<Vec<_>>>();
        let bytes = operation.count * element_bytes(operation.data_type);
        let output = match operation.kind {
            Kind::AllReduce(reduction) => combine(&all()?, operation.data_type, reduction),
            Kind::AllGather => all()?.concat(),
            Kind::ReduceScatter(reduction) => {
                let part = rank * bytes..(rank + 1) * bytes;
                let parts: Vec<Vec<u8>> = all()?.iter().map(|letter| letter[part.clone()].to_vec()).collect();
                combine(&parts, operation.data_type, reduction)
            }
            Kind::Broadcast(from) | Kind::Receive(from) => self.receive(from)?,
            Kind::Send(_) => return Some(()),
        };
        let parts = if matches!(operation.kind, Kind::AllGather) { size } else { 1 };
        assert_eq!(output.len(), bytes * parts, "the ranks' lengths are equal");
        let to = std::ptr::with_exposed_provenance_mut::<u8>(operation.output);
        unsafe { to.copy_from_nonoverlapping(output.as_ptr(), output.len()) };
        Some(())
    }
}

/// The file of what comes next from one rank to another.
fn next(shared: &Shared, [from, to]: [usize; 2], count: &mut usize) -> PathBuf {
    *count += 1;
    shared.folder.join(format!("{from}-{to}-{count}"))
}

impl Operation {
    fn read(&self, parts: usize) -> Vec<u8> {
        let bytes = self.count * element_bytes(self.data_type) * parts;
        let from = std::ptr::with_exposed_provenance::<u8>(self.input);
        let mut copy = vec![0; bytes];
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(from, bytes) };
        copy
    }
}
