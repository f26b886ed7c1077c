//! The table of faults: how each is provoked, and the expected result.

use std::time::Duration;

use cuda_std::launch::LaunchConfig;
use fault_kernels::{
    asserts, descends, fill, indexes_past_the_end, many_registers, never_ends, reads_askew, reads_nowhere,
    traps,
};
use ferrowarp::device::{Device, DeviceError};

/// Time limit of a child's wait for the GPU.
pub const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Maximum ticks of the kernel that never ends, if nothing stops it: half a minute at 2 GHz.
const MOST_TICKS: u64 = 60_000_000_000;

/// An unmapped address: the first page is never mapped.
const NOWHERE: usize = 0x10;

const BLOCKS: u32 = 3;
const THREADS: u32 = 64;

/// One way to fail.
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description.
    pub what: &'static str,
    /// Makes the device fail, and returns its error.
    pub provoke: fn(&Device) -> Result<(), DeviceError>,
    /// The expected result on a GPU.
    pub gpu: Expected,
    /// The expected result on the CPU executor, or why the fault has no counterpart there.
    pub cpu: Result<Expected, &'static str>,
    /// Whether the process waits after each launch.
    pub waits_for_each_launch: bool,
}

/// The expected result of a fault.
pub struct Expected {
    /// Texts that the error must contain.
    pub says: &'static [&'static str],
    /// Whether the device is unusable afterwards, and returns the same error again.
    pub stays: bool,
}

impl Fault {
    /// The same in a process that waits after each launch.
    const fn waiting(self) -> Self {
        Self { waits_for_each_launch: true, ..self }
    }
}

const fn fault(
    name: &'static str,
    what: &'static str,
    provoke: fn(&Device) -> Result<(), DeviceError>,
    gpu: Expected,
    cpu: Result<Expected, &'static str>,
) -> Fault {
    Fault { name, what, provoke, gpu, cpu, waits_for_each_launch: false }
}

const fn stays(says: &'static [&'static str]) -> Expected {
    Expected { says, stays: true }
}

const fn passes(says: &'static [&'static str]) -> Expected {
    Expected { says, stays: false }
}

/// A launch as errors describe it, after the kernel's name.
macro_rules! launched {
    ($kernel:literal) => {
        concat!(
            "kernel ",
            $kernel,
            " (grid (3, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory, clusters of 1)"
        )
    };
}

const NO_WILD_ADDRESS: &str = "the executor's memory is the process's own, which the system would end";

/// All faults.
pub const FAULTS: &[Fault] = &[
    fault(
        "illegal-address",
        "a kernel reads an invalid address",
        |device| read_nowhere(device).and_then(|()| device.synchronize()),
        stays(&[launched!("reads_nowhere"), "CUDA_ERROR_ILLEGAL_ADDRESS (700)", "compute-sanitizer"]),
        Err(NO_WILD_ADDRESS),
    ),
    fault(
        "misaligned-address",
        "a kernel loads 16 bytes at a multiple of 4",
        |device| {
            let inp = device.upload(&[1.0f32; 8])?;
            let mut out = device.alloc_zeroed::<f32>(1)?;
            // SAFETY: the buffers are long enough; the load is misaligned on purpose.
            unsafe { reads_askew::launch(device, config(), &mut out, &inp) }?;
            out.to_vec().map(drop)
        },
        stays(&[launched!("reads_askew"), "CUDA_ERROR_MISALIGNED_ADDRESS (716)", "compute-sanitizer"]),
        if cfg!(debug_assertions) {
            Ok(passes(&["kernel reads_askew failed in block", "lib.rs:", "is not a multiple of 16"]))
        } else {
            Err("the executor checks alignment in debug builds only")
        },
    ),
    fault(
        "trap",
        "a kernel traps",
        |device| {
            // SAFETY: the kernel has no contract.
            unsafe { traps::launch(device, config()) }
                .map_err(DeviceError::from)
                .and_then(|()| device.synchronize())
        },
        // Drivers differ in their code for a trap.
        stays(&[launched!("traps"), "trapped", "the driver says CUDA_ERROR_", "compute-sanitizer"]),
        Ok(passes(&["kernel traps failed in block", "thread (63, 0, 0)", "lib.rs:", "trap"])),
    ),
    fault(
        "index",
        "a kernel indexes past the end of a slice",
        |device| {
            let threads = (BLOCKS * THREADS) as usize;
            let inp = device.upload(&vec![1.0f32; threads - 1])?;
            let mut out = device.alloc_zeroed::<f32>(threads)?;
            // SAFETY: `out` has one element per thread; the kernel checks the index into `inp`.
            unsafe { indexes_past_the_end::launch(device, config(), &mut out, &inp) }?;
            out.to_vec().map(drop)
        },
        stays(&[
            launched!("indexes_past_the_end"),
            "panicked in block (2, 0, 0), thread (63, 0, 0)",
            "kernels/src/lib.rs:",
            "the len is 191 but the index is 191",
            "CUDA_ERROR_",
        ]),
        Ok(passes(&[
            "kernel indexes_past_the_end failed in block (2, 0, 0), thread (63, 0, 0)",
            "kernels/src/lib.rs:",
            "the len is 191 but the index is 191",
        ])),
    ),
    fault(
        "assert",
        "an assertion of a kernel does not hold",
        |device| {
            // SAFETY: the kernel has no contract.
            unsafe { asserts::launch(device, config(), 3) }
                .map_err(DeviceError::from)
                .and_then(|()| device.synchronize())
        },
        stays(&[
            launched!("asserts"),
            "panicked in block (",
            "), thread (",
            "kernels/src/lib.rs:",
            "the sum must be even",
        ]),
        Ok(passes(&["kernel asserts failed in block (", "kernels/src/lib.rs:", "the sum must be even"])),
    ),
    fault(
        "endless-loop",
        "a kernel does not end within the time limit",
        |device| {
            let flag = device.alloc_zeroed::<u32>(1)?;
            // SAFETY: the flag is one element, and lives until the kernel or the process has ended.
            unsafe { never_ends::launch(device, config(), &flag, MOST_TICKS) }?;
            flag.to_vec().map(drop)
        },
        stays(&[
            launched!("never_ends"),
            "did not end within the time limit of 2s",
            "CUDA_ERROR_NOT_READY (600)",
            "raise the limit",
        ]),
        Err("the executor runs kernels on the program's own threads, which nothing can stop"),
    ),
    fault(
        "stack-overflow",
        "a kernel calls itself without end",
        |device| {
            let next = device.upload(&[0u32, 2, 1])?;
            let mut out = device.alloc_zeroed::<u32>(1)?;
            // SAFETY: `out` has one element, and `next` has indices into its three; the recursion is endless on purpose.
            unsafe { descends::launch(device, config(), &mut out, &next) }?;
            device.synchronize()
        },
        stays(&[
            launched!("descends"),
            "a stack overflow may be the cause: the stack of descends has no size known in advance (recursion through `",
            "each thread has 8192 bytes of it",
            "FERROWARP_STACK_BYTES",
        ]),
        Err(
            "the executor ends the program with a line that names kernel, block, thread and FERROWARP_STACK_KIB",
        ),
    ),
    fault(
        "shared-memory",
        "a launch asks for more shared memory than a block can have",
        |device| {
            let bytes = device.limits().max_dynamic_shared_bytes + 1;
            fill_with(device, config().with_shared_bytes(bytes))
        },
        passes(&["launch of fill failed", "bytes of shared memory per block, at most"]),
        Ok(passes(&["launch of fill failed", "bytes of shared memory per block, at most"])),
    ),
    fault(
        "registers",
        "a launch has more threads than its kernel's registers allow",
        |device| {
            let inp = device.upload(&[0.5f32])?;
            let mut out = device.alloc_zeroed::<f32>(1)?;
            let most = device.limits().max_threads_per_block;
            // SAFETY: one element each.
            unsafe { many_registers::launch(device, LaunchConfig::new(1, most), &mut out, &inp, 9) }?;
            out.to_vec().map(drop)
        },
        passes(&["launch of many_registers failed", "the block (1024, 1, 1) has 1024 threads, at most"]),
        Err("the executor's threads have no registers to run out of"),
    ),
    fault(
        "out-of-memory",
        "an allocation is larger than the memory that is free",
        |device| {
            let bytes = match device.free_bytes()? {
                Some(free) => free + (1 << 30),
                None => isize::MAX as usize / 2,
            };
            device.alloc_zeroed::<u8>(bytes).map(drop)
        },
        passes(&["allocating ", "CUDA_ERROR_OUT_OF_MEMORY (2)", "MiB are free", "use smaller batches"]),
        Ok(passes(&["allocating ", "the system does not have that much", "use smaller batches"])),
    ),
    fault(
        "one-of-several",
        "one of several queued kernels fails",
        one_of_several,
        stays(&[
            "one of the queued kernels accessed an invalid address",
            "queued: fill (grid (3, 1, 1), block (64, 1, 1)",
            "reads_nowhere (grid (3, 1, 1), block (64, 1, 1)",
            "set FERROWARP_SYNC=1 to find it",
        ]),
        Err(NO_WILD_ADDRESS),
    ),
    fault(
        "one-of-several-sync",
        "the same with FERROWARP_SYNC=1, which names the one",
        one_of_several,
        stays(&[launched!("reads_nowhere"), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"]),
        Err(NO_WILD_ADDRESS),
    )
    .waiting(),
];

fn config() -> LaunchConfig {
    LaunchConfig::new(BLOCKS, THREADS)
}

fn read_nowhere(device: &Device) -> Result<(), DeviceError> {
    let mut out = device.alloc_zeroed::<u32>(1)?;
    // SAFETY: `out` has one element; the address is invalid on purpose.
    unsafe { reads_nowhere::launch(device, config(), &mut out, NOWHERE) }?;
    // The buffer's drop would wait for the kernel and receive the fault first.
    device.synchronize()
}

/// Fills a buffer and checks it.
pub fn fill_with(device: &Device, config: LaunchConfig) -> Result<(), DeviceError> {
    let mut out = device.alloc_zeroed::<f32>(100)?;
    // SAFETY: the buffer has that many elements.
    unsafe { fill::launch(device, config, &mut out, 100, 2.5) }?;
    let values = out.to_vec()?;
    assert!(values.iter().all(|&value| value == 2.5), "the device computes something else: {values:?}");
    Ok(())
}

/// Checks that a device still computes correctly.
pub fn is_in_order(device: &Device) -> Result<(), DeviceError> {
    fill_with(device, config())
}

fn one_of_several(device: &Device) -> Result<(), DeviceError> {
    let mut before = device.alloc_zeroed::<f32>(100)?;
    let mut out = device.alloc_zeroed::<u32>(1)?;
    let config = config();
    // SAFETY: the buffers have the number of elements that the kernels get. The wild address is intended.
    unsafe {
        fill::launch(device, config, &mut before, 100, 1.0)?;
        fill::launch(device, LaunchConfig::new(1, 32), &mut before, 32, 2.0)?;
        reads_nowhere::launch(device, config, &mut out, NOWHERE)?;
    }
    device.synchronize()
}
