//! The async proxy's view of a block's shared memory: what its own copies wrote, and what threads wrote before a fence.
//!
//! Ordinary writes are invisible to the executor. So it keeps the content of a chunk when the proxy last wrote or read
//! it. If the content has changed, a thread has written it, and a fence must have come since.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::tensor::Swizzle;

/// Bytes of a chunk, which is remembered as a whole.
pub(crate) const CHUNK: usize = 16;

/// Chunks of a line.
const IN_LINE: usize = 64;

/// The number of fences if nothing is known about a chunk.
const UNKNOWN: u32 = u32::MAX;

/// What the proxy has seen last.
#[derive(Clone, Copy)]
struct Seen {
    content: [u8; CHUNK],
    /// The number of the block's fences until then.
    fences: u32,
    /// The swizzle, if a tensor copy brought it.
    swizzle: Option<Swizzle>,
}

/// Why the proxy may not read a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A thread has written it, and no fence came since.
    NotFenced,
    /// A tensor copy brought it with this swizzle.
    Swizzled(Swizzle),
}

#[derive(Default)]
struct Lines {
    /// The index in `seen`, by address in lines.
    index: HashMap<usize, usize>,
    seen: Vec<[Seen; IN_LINE]>,
    /// The line that was looked up last.
    last: Option<(usize, usize)>,
}

/// The chunks of a block. Blocks whose threads are OS threads don't use it: the lock would order them.
#[derive(Default)]
pub(crate) struct Proxy {
    lines: Mutex<Lines>,
}

impl Lines {
    fn of(&mut self, address: usize) -> &mut Seen {
        let (line, chunk) = (address / CHUNK / IN_LINE, address / CHUNK % IN_LINE);
        let at = match self.last {
            Some((known, at)) if known == line => at,
            _ => {
                let next = self.seen.len();
                let at = *self.index.entry(line).or_insert(next);
                if at == next {
                    self.seen.push([Seen { content: [0; CHUNK], fences: UNKNOWN, swizzle: None }; IN_LINE]);
                }
                self.last = Some((line, at));
                at
            }
        };
        &mut self.seen[at][chunk]
    }
}

impl Proxy {
    /// Notes that the proxy has written these bytes, which are whole chunks. A tensor copy passes its swizzle.
    ///
    /// # Safety
    /// The bytes are valid, and no other OS thread accesses them.
    pub unsafe fn wrote(&self, address: *const u8, bytes: usize, swizzle: Option<Swizzle>, fences: u32) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for at in (0..bytes / CHUNK).map(|chunk| chunk * CHUNK) {
            // SAFETY: the caller keeps the contract.
            let content = unsafe { address.add(at).cast::<[u8; CHUNK]>().read_unaligned() };
            *lines.of(address.addr() + at) = Seen { content, fences, swizzle };
        }
    }

    /// Checks that the proxy may read chunks at these addresses, with this content. A multiplication passes the swizzle
    /// that data from tensor copies must have.
    pub fn reads(
        &self,
        chunks: impl Iterator<Item = (usize, [u8; CHUNK])>,
        swizzle: Option<Swizzle>,
        fences: u32,
    ) -> Result<(), Refused> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for (address, content) in chunks {
            let seen = lines.of(address);
            let is_visible = match seen.fences {
                UNKNOWN => fences > 0,
                _ => seen.content == content || fences > seen.fences,
            };
            if !is_visible {
                return Err(Refused::NotFenced);
            }
            let brought = seen.swizzle.filter(|_| seen.content == content);
            if let Some(brought) =
                brought.filter(|&brought| swizzle.is_some_and(|swizzle| swizzle != brought))
            {
                return Err(Refused::Swizzled(brought));
            }
            // Earlier fences do not count for later writes.
            *seen = Seen { content, fences, swizzle: brought };
        }
        Ok(())
    }

    /// Forgets everything, for another block.
    pub fn clear(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.seen.is_empty() {
            *lines = Lines::default();
        }
    }
}
