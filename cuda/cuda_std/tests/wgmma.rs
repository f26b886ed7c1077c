//! Compares multiplications by a warpgroup on the executor with integers.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, tf32};
use cuda_std::simt::{Executor, Scheduler};
use cuda_std::wgmma::{self, Accumulator, Element16, FragmentA, Panel, Registers, e4m3};
use cuda_std::{bulk, shared, thread};

use crate::common::all;
use crate::common::matrices::{Small, expected, fill, number, results};

/// Compares all results, rows of `columns` numbers.
#[track_caller]
fn check(out: Vec<f32>, columns: usize, expected: impl Fn(usize, usize) -> f32) {
    for (i, x) in out.into_iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        assert_eq!(x, expected(row, column), "{row} {column} of {columns}");
    }
}

/// Adds the sum over a whole panel to D, 64 rows of N columns, with both operands K-major.
fn k_major<T: Small, const N: usize, const R: usize>(executor: &Executor)
where
    [f32; R]: Registers,
{
    let steps = if cfg!(miri) { 1 } else { 4 };
    let out = results(executor, N, (64 + N) * 128, |out| {
        let a = shared::dynamic_shared_mem_aligned::<Panel<T, 64>>();
        let b = a.wrapping_add(1).cast::<Panel<T, N>>();
        fill(a, 1);
        fill(b, 2);
        bulk::fence_shared();
        thread::sync_threads();
        let was = Accumulator::<R>::from_fn(|row, column| number(3, row, column) as f32);
        // SAFETY: all threads reach this, and the operands do not change.
        unsafe {
            let mut pending = was.start();
            wgmma::fence();
            for step in 0..steps {
                pending.multiply(Panel::k_major::<64>(a, 0).step(step), Panel::k_major::<N>(b, 0).step(step));
            }
            wgmma::commit();
            pending.finish::<0>().for_each(|row, column, x| *out.add(N * row + column) = x);
        }
    });
    let k = steps as usize * T::K;
    check(out, N, |row, column| expected(row, column, k, number(3, row, column)));
}

/// The same with both operands MN-major, in panels with one row per K.
fn mn_major<T: Small + Element16, const N: usize, const R: usize>(executor: &Executor)
where
    [f32; R]: Registers,
{
    let panels = N.div_ceil(64);
    let out = results(executor, N, (1 + panels) * 32 * 128, |out| {
        let a = shared::dynamic_shared_mem_aligned::<Panel<T, 32>>();
        let b = a.wrapping_add(1);
        let columns = 64 * (1 + panels);
        for i in (thread::thread_idx_x() as usize..32 * columns).step_by(128) {
            let (k, column) = (i / columns, i % columns);
            let x = if column < 64 { number(1, column, k) } else { number(2, column - 64, k) };
            let element = Panel::element(a.wrapping_add(column / 64), k as u32, column as u32 % 64);
            // SAFETY: the element belongs to this thread.
            unsafe { *element = T::small(x) };
        }
        bulk::fence_shared();
        thread::sync_threads();
        // SAFETY: all threads reach this, and the operands do not change.
        unsafe {
            let mut pending = Accumulator::<R>([f32::NAN; R]).start();
            wgmma::fence();
            let (a, b) = (Panel::mn_major::<64>(a), Panel::mn_major::<N>(b));
            pending.multiply_keeping(false, a, b);
            pending.multiply(a.step(1), b.step(1));
            wgmma::commit();
            pending.finish::<0>().for_each(|row, column, x| *out.add(N * row + column) = x);
        }
    });
    check(out, N, |row, column| expected(row, column, 32, 0));
}

/// The same with A in registers; `fragment` returns them for a step.
fn registers<T: Small, const N: usize, const R: usize>(
    executor: &Executor,
    fragment: impl Fn(usize) -> FragmentA<T> + Sync,
) where
    [f32; R]: Registers,
{
    let out = results(executor, N, N * 128, |out| {
        let b = shared::dynamic_shared_mem_aligned::<Panel<T, N>>();
        fill(b, 2);
        bulk::fence_shared();
        thread::sync_threads();
        // SAFETY: all threads reach this, and the operands do not change.
        unsafe {
            let mut pending = Accumulator::<R>::ZERO.start();
            let (first, second) = (fragment(0), fragment(1));
            wgmma::fence();
            pending.multiply(first, Panel::k_major::<N>(b, 0));
            pending.multiply(second, Panel::k_major::<N>(b, 0).step(1));
            wgmma::commit();
            pending.finish::<0>().for_each(|row, column, x| *out.add(N * row + column) = x);
        }
    });
    check(out, N, |row, column| expected(row, column, 2 * T::K, 0));
}

/// Converts the `mma` fragment of A, which has the same layout.
fn fragment<T: Small + mma::Element>(step: usize) -> FragmentA<T> {
    let warp = thread::thread_idx_x() as usize / 32;
    let k = step * <T as wgmma::Element>::K;
    mma::FragmentA::<T>::from_fn(|row, column| T::small(number(1, 16 * warp + row, k + column))).into()
}

/// The fragment of 8-bit numbers: each register has 4 neighbours of a row.
fn fragment_8(step: usize) -> FragmentA<e4m3> {
    let thread = thread::thread_idx_x() as usize;
    let register = |i: usize| {
        let row = thread / 32 * 16 + thread % 32 / 4 + [0, 8, 0, 8][i];
        let k = 32 * step + [0, 0, 16, 16][i] + thread % 4 * 4;
        u32::from_le_bytes(core::array::from_fn(|at| e4m3::small(number(1, row, k + at)).to_bits()))
    };
    FragmentA::from_registers(core::array::from_fn(register))
}

macro_rules! for_sizes {
    ($function:ident::<$ty:ty> $arguments:tt, $($n:literal $r:literal)*) => {
        $($function::<$ty, $n, $r> $arguments;)*
    };
}

#[test]
#[cfg(not(miri))]
fn every_number_of_columns_is_multiplied() {
    let executor = Executor::new().without_seed();
    for_sizes!(k_major::<bf16>(&executor), 8 4 16 8 24 12 32 16 40 20 48 24 56 28 64 32 72 36 80 40 88 44 96 48 104 52 112 56
        120 60 128 64 136 68 144 72 152 76 160 80 168 84 176 88 184 92 192 96 200 100 208 104 216 108 224 112 232 116 240 120
        248 124 256 128);
}

#[test]
fn every_type_is_multiplied_by_fibers_in_every_order_and_by_os_threads() {
    for executor in all() {
        for_sizes!(k_major::<tf32>(&executor), 8 4);
        if cfg!(miri) {
            continue;
        }
        for_sizes!(k_major::<bf16>(&executor), 8 4 72 36);
        for_sizes!(k_major::<f16>(&executor), 16 8);
        for_sizes!(k_major::<e4m3>(&executor), 24 12);
    }
}

#[test]
#[cfg(not(miri))]
fn rows_of_k_are_multiplied() {
    for executor in all() {
        for_sizes!(mn_major::<bf16>(&executor), 8 4 64 32 96 48);
        for_sizes!(mn_major::<f16>(&executor), 136 68);
    }
    for_sizes!(mn_major::<bf16>(&Executor::new()), 256 128);
}

#[test]
fn registers_are_multiplied() {
    for executor in all() {
        for_sizes!(registers::<bf16>(&executor, fragment::<bf16>), 8 4);
        if cfg!(miri) {
            continue;
        }
        for_sizes!(registers::<f16>(&executor, fragment::<f16>), 32 16);
        for_sizes!(registers::<tf32>(&executor, fragment::<tf32>), 16 8);
        for_sizes!(registers::<e4m3>(&executor, fragment_8), 40 20);
    }
}

/// D of one multiplication, rounded, is A of the next one: (A B) V, where V has one row per K.
#[test]
#[cfg(not(miri))]
fn accumulators_become_the_next_a() {
    for executor in all() {
        let out = results(&executor, 64, 3 * 64 * 128, |out| {
            let a = shared::dynamic_shared_mem_aligned::<Panel<f16, 64>>();
            let (b, v) =
                (a.wrapping_add(1).cast::<Panel<f16, 32>>(), a.wrapping_add(2).cast::<Panel<f16, 32>>());
            fill(a, 1);
            fill(b, 2);
            fill(v, 4);
            bulk::fence_shared();
            thread::sync_threads();
            // SAFETY: all threads reach this, and the operands do not change.
            unsafe {
                let mut scores = Accumulator::<16>::ZERO.start();
                wgmma::fence();
                scores.multiply(Panel::k_major::<64>(a, 0), Panel::k_major::<32>(b, 0));
                wgmma::commit();
                let scores = scores.finish::<0>();
                let (first, second) = (scores.fragment::<f16>(0), scores.fragment::<f16>(1));
                let mut pending = Accumulator::<32>::ZERO.start();
                wgmma::fence();
                pending.multiply(first, Panel::mn_major::<64>(v));
                pending.multiply(second, Panel::mn_major::<64>(v).step(1));
                wgmma::commit();
                pending.finish::<0>().for_each(|row, column, x| *out.add(64 * row + column) = x);
            }
        });
        check(out, 64, |row, column| {
            (0..32).map(|k| expected(row, k, 16, 0) * number(4, k, column) as f32).sum()
        });
    }
}

/// Two tiles are pending at a time, and each wait leaves the later one.
#[test]
#[cfg(not(miri))]
fn tiles_are_finished_one_after_the_other() {
    for executor in all() {
        let out = results(&executor, 8, 3 * 64 * 128, |out| {
            let a = shared::dynamic_shared_mem_aligned::<Panel<bf16, 128>>();
            let b = a.wrapping_add(1).cast::<Panel<bf16, 16>>();
            fill(a, 1);
            fill(b, 2);
            bulk::fence_shared();
            thread::sync_threads();
            // SAFETY: all threads reach this, and the operands do not change.
            unsafe {
                let mut upper = Accumulator::<4>::ZERO.start();
                let mut lower = Accumulator::<4>::ZERO.start();
                wgmma::fence();
                upper.multiply(Panel::k_major::<64>(a, 0), Panel::k_major::<8>(b, 8));
                wgmma::commit();
                lower.multiply(Panel::k_major::<64>(a, 64), Panel::k_major::<8>(b, 8));
                wgmma::commit();
                let upper = upper.finish::<1>();
                let lower = lower.finish::<0>();
                upper.for_each(|row, column, x| *out.add(8 * row + column) = x);
                lower.for_each(|row, column, x| *out.add(8 * row + column) -= 1000.0 * x);
            }
        });
        check(out, 8, |row, column| {
            expected(row, 8 + column, 16, 0) - 1000.0 * expected(64 + row, 8 + column, 16, 0)
        });
    }
}

/// The bits of an address that the swizzle of 128 bytes changes, from the definition by bits: 4 to 6 by 7 to 9.
#[test]
fn elements_of_a_panel_lie_where_the_swizzle_puts_them() {
    let panel = core::ptr::null_mut::<Panel<tf32, 24>>();
    for (row, column) in (0..24).flat_map(|row| (0..32).map(move |column| (row, column))) {
        let plain: usize = row * 128 + column * 4;
        let swizzled = plain ^ (plain & 0x380) >> 3;
        assert_eq!(Panel::element(panel, row as u32, column as u32).addr(), swizzled, "{row} {column}");
    }
    assert_eq!(Panel::<tf32, 24>::BYTES, 24 * 128);
}

/// All 256 8-bit numbers, and numbers between two of them.
#[test]
fn numbers_of_8_bits_are_the_nearest() {
    let value = |bits: u8| {
        let (sign, exponent, mantissa) = (bits >> 7, i32::from(bits >> 3 & 0xf), f64::from(bits & 7) / 8.0);
        let magnitude =
            if exponent == 0 { mantissa * 2f64.powi(-6) } else { (1.0 + mantissa) * 2f64.powi(exponent - 7) };
        if sign == 1 { -magnitude } else { magnitude }
    };
    let numbers: Vec<u8> = (0..=255).filter(|bits| bits & 0x7f != 0x7f).collect();
    for &bits in &numbers {
        assert_eq!(f64::from(e4m3::from_bits(bits).to_f32()), value(bits), "{bits:#x}");
        assert_eq!(e4m3::from_f32(value(bits) as f32).to_bits(), bits, "{bits:#x}");
    }
    for bits in 0..0x7e {
        let (low, high) = (value(bits), value(bits + 1));
        let middle = (low + high) / 2.0;
        let even = bits + bits % 2;
        let near =
            [(middle, even), (middle - low / 1024.0 - 1e-6, bits), (middle + low / 1024.0 + 1e-6, bits + 1)];
        for (x, nearest) in near {
            assert_eq!(e4m3::from_f32(x as f32).to_bits(), nearest, "{x}");
            assert_eq!(e4m3::from_f32(-x as f32).to_bits(), nearest | 0x80, "{x}");
        }
    }
    for (x, bits) in
        [(449.0, 0x7e), (1e30, 0x7e), (f32::INFINITY, 0x7e), (-1e9, 0xfe), (1e-9, 0), (-1e-40, 0x80)]
    {
        assert_eq!(e4m3::from_f32(x).to_bits(), bits, "{x}");
    }
    assert!(e4m3::from_f32(f32::NAN).to_f32().is_nan());
}

/// OS threads and fibers add in the same order.
#[test]
#[cfg(not(miri))]
fn both_schedulers_round_alike() {
    let run = |executor: Executor| {
        results(&executor, 16, (64 + 16) * 128, |out| {
            let a = shared::dynamic_shared_mem_aligned::<Panel<tf32, 64>>();
            let b = a.wrapping_add(1).cast::<Panel<tf32, 16>>();
            for i in (thread::thread_idx_x()..80 * 32).step_by(128) {
                let x = ((i + 1) as f32).sqrt().sin() * 1000f32.powi(i as i32 % 3);
                // SAFETY: the element belongs to this thread; the rows of B follow those of A.
                unsafe { *Panel::element(a, i / 32, i % 32) = tf32::from_f32(x) };
            }
            bulk::fence_shared();
            thread::sync_threads();
            // SAFETY: all threads reach this, and the operands do not change.
            unsafe {
                let mut pending = Accumulator::<8>::ZERO.start();
                wgmma::fence();
                for step in 0..4 {
                    pending.multiply(
                        Panel::k_major::<64>(a, 0).step(step),
                        Panel::k_major::<16>(b, 0).step(step),
                    );
                }
                wgmma::commit();
                pending.finish::<0>().for_each(|row, column, x| *out.add(16 * row + column) = x);
            }
        })
    };
    let new = || Executor::new().without_seed();
    assert_eq!(run(new()), run(new().with_scheduler(Scheduler::Threads)));
}
