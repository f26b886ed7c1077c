use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::thread::{sync_threads, thread_idx_x};

/// The arguments of the launches: a field for each parameter, and one that the kernel does not have.
#[derive(Clone, Copy)]
struct Arguments {
    inp: *const u8,
    out: *mut u64,
    factor: u32,
    _unused: u8,
}

struct Facts {
    bytes: usize,
    width: u32,
    is_wide: bool,
}

/// Reverses the elements of a block.
///
/// # Safety
/// Launched with one block of `BLOCK` threads; `out` and `inp` have one element per thread.
#[kernel(
    with(HALF = max(BLOCK / 2, 1)),
    max_threads = BLOCK,
    min_blocks = 64 / BLOCK,
    args = Arguments,
    facts: Facts = Facts { bytes: size_of::<T>(), width, is_wide: WIDE && HALF > 1 },
    instances(
        reverse_single = <u16, 1, false>, width = 1;
        for T in [u32, u64], WIDE = false, width = 7 {
            reverse_{T}_4 = <4>;
            reverse_{T}_{BLOCK}_wide = <8>, WIDE = true, width = 8, min_blocks = 2 * 3;
        }
    ),
)]
unsafe fn reverse<T: Copy + From<u8> + Into<u64>, const BLOCK: usize, const WIDE: bool, const HALF: usize>(
    #[shared(BLOCK)] shared: *mut T,
    out: *mut u64,
    #[shared(HALF)] _half_shared: *mut u8,
    inp: *const u8,
    #[from(u32)] factor: u64,
) {
    let tid = thread_idx_x() as usize;
    // SAFETY: each thread writes its own elements, and reads those of others after the barrier.
    unsafe {
        *shared.add(tid) = T::from(*inp.add(tid));
        sync_threads();
        *out.add(tid) = factor * (*shared.add(BLOCK - 1 - tid)).into();
    }
}

/// Adds `N` to each element.
///
/// # Safety
/// `out` has one element per thread.
#[kernel(
    cpu_only,
    instances(
        N = 1, cpu_only = false {
            add_one_anywhere = <>;
            add_one_here = <>, cpu_only = true;
        }
        add_two_here = <2>, min_arch = 90;
    ),
)]
unsafe fn add<const N: u32>(out: *mut u32) {
    // SAFETY: the kernel's contract.
    unsafe { *out.add(thread_idx_x() as usize) += N };
}

/// # Safety
/// No precondition; it does nothing.
#[kernel(
    arch = "90a",
    instances(
        nothing_1 = <1>;
        nothing_2 = <2>, min_arch = 80;
        #[cfg(target_pointer_width = "64")]
        arch = "100a" {
            nothing_3 = <3>;
        }
        #[cfg(target_pointer_width = "16")]
        arch = "100a" {
            nothing_4 = <4>;
        }
    ),
)]
unsafe fn nothing<const N: u32>() {}

/// # Safety
/// No precondition; it does nothing.
#[kernel(cpu_only, cooperative)]
unsafe fn together() {}

pub fn main() {
    let names = reverse::KERNELS.iter().map(|meta| (meta.name, meta.max_threads, meta.min_blocks));
    assert!(names.eq([
        ("reverse_single", 1, 64),
        ("reverse_u32_4", 4, 16),
        ("reverse_u32_8_wide", 8, 6),
        ("reverse_u64_4", 4, 16),
        ("reverse_u64_8_wide", 8, 6),
    ]));
    let facts = reverse::INSTANCES.iter().map(|instance| (instance.bytes, instance.width, instance.is_wide));
    assert!(facts.eq([(2, 1, false), (4, 7, false), (4, 8, true), (8, 7, false), (8, 8, true)]));
    for instance in reverse::INSTANCES {
        let block = instance.meta.max_threads;
        let inp: Vec<u8> = (0..block as u8).collect();
        let mut out = vec![0; block as usize];
        let args = Arguments { inp: inp.as_ptr(), out: out.as_mut_ptr(), factor: 3, _unused: 0 };
        // SAFETY: one block, and one element per thread.
        unsafe { (instance.launch)(&Executor::new(), LaunchConfig::new(1, block), args) }.unwrap();
        assert!(out.into_iter().eq((0..u64::from(block)).rev().map(|x| 3 * x)));
    }
    // Each has its own name and typed launch too.
    let (inp, mut out) = ([5u8], [0u64]);
    // SAFETY: one block of one thread.
    unsafe { reverse_single::launch(&Executor::new(), LaunchConfig::new(1, 1), &mut out, &inp, 2) }.unwrap();
    assert_eq!(out, [10]);
    // The innermost setting decides which devices it is for.
    let places = add::KERNELS.iter().map(|meta| (meta.name, meta.cpu_only, meta.min_arch));
    assert!(places.eq([
        ("add_one_anywhere", false, 0),
        ("add_one_here", true, 0),
        ("add_two_here", true, 90)
    ]));
    // A group whose `cfg` does not hold is left out.
    let places = nothing::KERNELS.iter().map(|meta| (meta.name, meta.min_arch, meta.arch_specific));
    assert!(places.eq([("nothing_1", 90, true), ("nothing_2", 80, false), ("nothing_3", 100, true)]));
    assert!(!reverse_single::META.cpu_only);
    assert!(together::META.cpu_only && together::META.cooperative);
    let mut out = [0; 3];
    // SAFETY: one element per thread.
    unsafe { add_two_here::launch(&Executor::new(), LaunchConfig::new(1, 3), &mut out) }.unwrap();
    assert_eq!(out, [2; 3]);
    // SAFETY: the kernel does nothing.
    unsafe { together::launch(&Executor::new(), LaunchConfig::new(2, 3)) }.unwrap();
}
