//! How many blocks of a kernel a multiprocessor holds, and what limits their number.

use std::collections::BTreeMap;

use cuda_builder::ptxas::KernelResources;

/// The limits of a multiprocessor (CUDA programming guide, "technical specifications per compute capability").
struct Multiprocessor {
    warps: u32,
    blocks: u32,
    shared: u32,
    /// Shared memory that the system takes of each block.
    reserved: u32,
}

/// The four schedulers' registers, and the registers of a warp in units of this.
const REGISTERS: u32 = 4 * 16384;
const UNIT: u32 = 256;

/// The occupancy of a kernel without dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks on a multiprocessor.
    pub blocks: u32,
    /// Its warps, of those that a multiprocessor can hold.
    pub percent: u32,
    /// What is used up first.
    pub limit: &'static str,
}

/// The occupancy of a kernel in blocks of `threads` threads.
pub fn of(arch: &str, threads: u32, kernel: &KernelResources) -> Occupancy {
    let multiprocessor = match arch {
        "compute_75" => Multiprocessor { warps: 32, blocks: 16, shared: 64 << 10, reserved: 0 },
        "compute_80" => Multiprocessor { warps: 64, blocks: 32, shared: 164 << 10, reserved: 1024 },
        _ => Multiprocessor { warps: 64, blocks: 32, shared: 228 << 10, reserved: 1024 },
    };
    let warps = threads.max(1).div_ceil(32);
    let of_warp = (32 * kernel.registers.max(1)).next_multiple_of(UNIT);
    let shared = (kernel.shared.next_multiple_of(128) + multiprocessor.reserved).max(1);
    let limits = [
        ("warps", multiprocessor.warps / warps),
        ("blocks", multiprocessor.blocks),
        ("registers", 4 * (REGISTERS / 4 / of_warp) / warps),
        ("shared memory", multiprocessor.shared / shared),
    ];
    let (limit, blocks) = limits.into_iter().min_by_key(|(_, blocks)| *blocks).unwrap_or(("warps", 0));
    Occupancy { blocks, percent: 100 * blocks * warps / multiprocessor.warps, limit }
}

/// The threads per block of the kernels that state a maximum.
pub fn threads(ptx: &str) -> BTreeMap<String, u32> {
    let (mut entry, mut threads) = ("", BTreeMap::new());
    for line in ptx.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once(".entry ") {
            entry = name.split('(').next().unwrap_or(name).trim();
        }
        if let Some(sizes) = line.strip_prefix(".maxntid ") {
            let sizes = sizes.split(',').filter_map(|size| size.trim().parse::<u32>().ok());
            threads.insert(entry.to_owned(), sizes.product());
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_first_limits_the_blocks() {
        let of = |threads, registers, shared| {
            let kernel = KernelResources { registers, shared, ..KernelResources::default() };
            let Occupancy { blocks, percent, limit } = of("compute_90", threads, &kernel);
            (blocks, percent, limit)
        };
        assert_eq!(of(256, 32, 0), (8, 100, "warps"));
        assert_eq!(of(256, 33, 0), (6, 75, "registers"));
        assert_eq!(of(256, 64, 0), (4, 50, "registers"));
        assert_eq!(of(32, 16, 0), (32, 50, "blocks"));
        assert_eq!(of(33, 16, 0), (32, 100, "warps"));
        assert_eq!(of(256, 32, 100 << 10), (2, 25, "shared memory"));
        assert_eq!(of(1024, 255, 0), (0, 0, "registers"));
    }

    #[test]
    fn threads_are_those_of_the_entry_before() {
        let ptx = ".visible .entry a(\n.param .u64 p\n)\n.maxntid 8, 4, 1\n{\n}\n.entry b()\n{\n}\n";
        assert_eq!(threads(ptx), BTreeMap::from([("a".to_owned(), 32)]));
    }
}
