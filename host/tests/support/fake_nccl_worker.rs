//! The thread of a communicator, which performs its operations over Unix sockets.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::fake_nccl_elements::{combine, element_bytes};
use super::{Job, Kind, Operation, SUCCESS, Shared};

/// What other ranks sent, by rank.
#[derive(Default)]
pub struct Mailbox {
    letters: Mutex<HashMap<usize, VecDeque<Vec<u8>>>>,
    arrived: Condvar,
}

pub struct Worker {
    pub shared: Arc<Shared>,
    pub peers: HashMap<usize, UnixStream>,
}

impl Worker {
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

    /// Connects to all ranks, this one included.
    fn connect(&mut self) -> Option<c_int> {
        let Shared { rank, size, folder, mailbox, .. } = &*self.shared;
        let listener = UnixListener::bind(folder.join(rank.to_string())).unwrap();
        let mailbox = Arc::clone(mailbox);
        let expected = *size;
        thread::spawn(move || {
            for stream in listener.incoming().take(expected) {
                let (stream, mailbox) = (stream.unwrap(), Arc::clone(&mailbox));
                thread::spawn(move || read_letters(stream, &mailbox));
            }
        });
        for peer in 0..*size {
            self.peers.insert(peer, self.connect_to(&folder.join(peer.to_string()))?);
        }
        // No rank goes on before all are connected.
        let size = *size;
        (0..size).for_each(|peer| self.send(peer, &[]));
        (0..size).try_for_each(|peer| self.receive(peer).map(drop))?;
        Some(SUCCESS)
    }

    fn connect_to(&self, socket: &Path) -> Option<UnixStream> {
        while !self.shared.is_aborted.load(Ordering::Relaxed) {
            if let Ok(stream) = UnixStream::connect(socket) {
                return Some(stream);
            }
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn send(&mut self, to: usize, bytes: &[u8]) {
        let head = [self.shared.rank as u64, bytes.len() as u64].map(u64::to_le_bytes).concat();
        let stream = self.peers.get_mut(&to).unwrap();
        // A rank that has ended takes nothing; the real library does not notice, either.
        let _ = stream.write_all(&head).and_then(|()| stream.write_all(bytes));
    }

    /// The next bytes from a rank; none after an abort.
    fn receive(&self, from: usize) -> Option<Vec<u8>> {
        let Mailbox { letters, arrived } = &*self.shared.mailbox;
        let mut letters = letters.lock().unwrap();
        loop {
            if self.shared.is_aborted.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(letter) = letters.get_mut(&from).and_then(VecDeque::pop_front) {
                return Some(letter);
            }
            letters = arrived.wait_timeout(letters, Duration::from_millis(5)).unwrap().0;
        }
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
    fn finish(&self, operation: &Operation) -> Option<()> {
        let all = || (0..self.shared.size).map(|from| self.receive(from)).collect::<Option<Vec<_>>>();
        let bytes = operation.count * element_bytes(operation.data_type);
        let output = match operation.kind {
            Kind::AllReduce(reduction) => combine(&all()?, operation.data_type, reduction),
            Kind::AllGather => all()?.concat(),
            Kind::ReduceScatter(reduction) => {
                let part = self.shared.rank * bytes..(self.shared.rank + 1) * bytes;
                let parts: Vec<Vec<u8>> = all()?.iter().map(|letter| letter[part.clone()].to_vec()).collect();
                combine(&parts, operation.data_type, reduction)
            }
            Kind::Broadcast(from) | Kind::Receive(from) => self.receive(from)?,
            Kind::Send(_) => return Some(()),
        };
        let parts = if matches!(operation.kind, Kind::AllGather) { self.shared.size } else { 1 };
        assert_eq!(output.len(), bytes * parts, "the ranks' lengths are equal");
        let to = std::ptr::with_exposed_provenance_mut::<u8>(operation.output);
        unsafe { to.copy_from_nonoverlapping(output.as_ptr(), output.len()) };
        Some(())
    }
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

fn read_letters(mut stream: UnixStream, mailbox: &Mailbox) {
    let mut head = [0; 16];
    while stream.read_exact(&mut head).is_ok() {
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap()) as usize;
        let mut letter = vec![0; number(8)];
        if stream.read_exact(&mut letter).is_err() {
            return;
        }
        mailbox.letters.lock().unwrap().entry(number(0)).or_default().push_back(letter);
        mailbox.arrived.notify_all();
    }
}
