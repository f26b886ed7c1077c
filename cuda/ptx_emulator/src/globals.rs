//! The memory of a module's global and constant variables, which lives as long as the emulator.

use core::cell::UnsafeCell;

use crate::exec::space::{Region, Regions, function_address};
use crate::instr::Space;
use crate::module::{PtxModule, Target, Variable};

/// One allocation per variable.
pub(crate) struct Globals {
    storages: Vec<Storage>,
}

/// Memory of one variable, separate from all others so that an overrun is detected.
struct Storage {
    words: Box<[UnsafeCell<u64>]>,
    /// Bytes skipped at the start for alignment.
    skip: usize,
    bytes: usize,
}

// SAFETY: only `Emulator` touches the words, and its lock lets one thread at a time do so.
unsafe impl Sync for Storage {}

impl Storage {
    fn new(variable: &Variable) -> Storage {
        let (bytes, align) = (variable.bytes as usize, variable.align as usize);
        let words = (bytes + align).div_ceil(8) + 1;
        let words: Box<[UnsafeCell<u64>]> = (0..words).map(|_| UnsafeCell::new(0)).collect();
        let skip = words.as_ptr().align_offset(align.max(8)) * 8;
        Storage { words, skip, bytes }
    }

    /// The variable's first byte.
    fn start(&self) -> *mut u8 {
        let start: *const UnsafeCell<u64> = self.words.as_ptr();
        start.cast::<u8>().cast_mut().wrapping_add(self.skip)
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "the variable holds the bytes");
        // SAFETY: the bytes lie in the words, which are cells, and no other thread touches them.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start().add(at), bytes.len()) };
    }
}

impl Globals {
    /// All variables with their initial values.
    pub fn new(module: &PtxModule) -> Globals {
        let storages: Vec<Storage> = module.variables.iter().map(Storage::new).collect();
        for (variable, storage) in module.variables.iter().zip(&storages) {
            storage.write(0, &variable.init);
            for address in &variable.addresses {
                let target = match address.target {
                    Target::Variable(variable) => storages[variable].start().expose_provenance() as u64,
                    Target::Function(index) => function_address(index),
                };
                let all = target.wrapping_add_signed(address.addend).to_le_bytes();
                match address.byte {
                    None => storage.write(address.offset, &all),
                    Some(byte) => storage.write(address.offset, &all[byte as usize..][..1]),
                }
            }
        }
        Globals { storages }
    }

    /// Appends the address of every variable, and the memory that kernels may access.
    pub fn regions(&self, module: &PtxModule, addresses: &mut Vec<u64>, regions: &mut Regions) {
        for (variable, storage) in module.variables.iter().zip(&self.storages) {
            let start = storage.start().expose_provenance() as u64;
            addresses.push(start);
            if variable.space != Space::Shared {
                regions.push(Region {
                    start,
                    end: start + variable.bytes,
                    space: variable.space,
                    is_writable: variable.space == Space::Global,
                });
            }
        }
    }

    /// Writes the whole variable; false if its size differs.
    pub fn set(&self, variable: usize, bytes: &[u8]) -> bool {
        let storage = &self.storages[variable];
        let fits = bytes.len() == storage.bytes;
        if fits {
            storage.write(0, bytes);
        }
        fits
    }

    /// The bytes of the variable.
    pub fn get(&self, variable: usize) -> Vec<u8> {
        let storage = &self.storages[variable];
        let mut bytes = vec![0; storage.bytes];
        // SAFETY: the bytes lie in the words, which are cells, and no other thread touches them.
        unsafe { core::ptr::copy_nonoverlapping(storage.start(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }
}
