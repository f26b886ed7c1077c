//! The heap of the kernels' `malloc` and `free`.

use core::cell::RefCell;
use std::collections::BTreeMap;

use super::shadow::Memory;
use super::space::Access;
use crate::error::Cause;

/// The driver's state between launches: the heap, and what kernels have printed.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    pub heap: RefCell<Heap>,
    pub output: RefCell<Vec<u8>>,
}

/// Start of the heap's generic addresses, where no pointer of a host process lies.
const HEAP_WINDOW: u64 = 0xe300_0000_0000_0000;
/// Bytes of all blocks together: a device's default limit.
const LIMIT: u64 = 8 << 20;
/// After this many bytes of addresses, they are used again if no block is in use.
const REUSE: u64 = 64 << 20;
/// Size of the address range.
const WINDOW: u64 = 1 << 30;
/// Bytes between two blocks, so that an overrun is detected.
const GAP: u64 = 64;

/// Whether a generic address belongs to the heap.
pub(crate) fn holds(address: u64) -> bool {
    address.checked_sub(HEAP_WINDOW).is_some_and(|at| at < WINDOW)
}

/// All blocks that kernels have allocated. A freed block keeps its addresses, so that a use after free is detected.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    memory: Memory,
    blocks: BTreeMap<u64, Block>,
    live: u64,
    live_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    is_free: bool,
}

impl Heap {
    /// Allocates a block and returns its generic address, or zero if there is no room.
    pub fn malloc(&mut self, bytes: u64) -> u64 {
        if bytes > LIMIT - self.live_bytes {
            return 0;
        }
        if self.live == 0 && self.memory.len() as u64 > REUSE {
            *self = Heap::default();
        }
        // Aligned to exactly the guaranteed 16 bytes, so that code that relies on more fails.
        let at = (self.memory.len() as u64 + GAP).next_multiple_of(32) + 16;
        if at + bytes > WINDOW {
            return 0;
        }
        self.memory.resize((at + bytes) as usize);
        self.blocks.insert(at, Block { bytes, is_free: false });
        self.live += 1;
        self.live_bytes += bytes;
        HEAP_WINDOW + at
    }

    /// Frees a block; does nothing for address zero.
    pub fn free(&mut self, address: u64) -> Result<(), Box<Cause>> {
        if address == 0 {
            return Ok(());
        }
        let at = address.wrapping_sub(HEAP_WINDOW);
        let fail = |what: &str| Err(Cause::Heap(format!("`free` of {address:#x}, {what}")).into());
        match self.blocks.get_mut(&at) {
            None => fail("which is no block of `malloc`"),
            Some(Block { is_free: true, .. }) => fail("a block that was freed before"),
            Some(block) => {
                block.is_free = true;
                self.live -= 1;
                self.live_bytes -= block.bytes;
                Ok(())
            }
        }
    }

    /// Checks an access, and returns its offset in [`Self::memory`].
    pub fn place(&self, address: u64, bytes: u64, access: Access) -> Result<usize, Box<Cause>> {
        let at = address - HEAP_WINDOW;
        let access = access.name();
        let inside = |(start, block): &(&u64, &Block)| at - **start < block.bytes;
        match self.blocks.range(..=at).next_back().filter(inside) {
            Some((_, Block { is_free: true, .. })) => {
                let what = format!("{access} of {bytes} bytes at {address:#x}, in a block that was freed");
                Err(Cause::Heap(what).into())
            }
            Some((start, block)) if at - start + bytes <= block.bytes => Ok(at as usize),
            _ => Err(Cause::OutOfBounds { access, space: "heap", address, bytes }.into()),
        }
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}
