//! Parameters by alias, by macro and by value, and vectors: the same layout on device and host.

use crate::common::{self, on_all};
use compat_kernels::*;
use cuda_builder::Backend;
use cuda_std::kernel;
use cuda_std::launch::{KernelsOf, LaunchConfig, LaunchError, Launcher, PtrArg, RawBuffer, Residence};
use cuda_std::simt::Executor;

const N: usize = 70;

on_all! {
    aliases_are_what_they_stand_for
    types_by_macro_are_what_they_stand_for
    layouts_are_the_hosts
    one_struct_is_all_arguments
    fields_elsewhere_are_refused
}

fn floats(seed: u32) -> Vec<f32> {
    (0..N as u32).map(|i| (i * i + seed) as f32 * 0.25).collect()
}

fn aliases_are_what_they_stand_for(on: &dyn Launcher) {
    let (a, b, mut out) = (floats(1), floats(2), vec![0.0; N]);
    // SAFETY: `out` is as long as the shorter input.
    unsafe { add_aliased::launch(on, LaunchConfig::cover(N, 32), &a, &b[..50], &[3.0], &mut out) }.unwrap();
    for (i, out) in out.iter().enumerate() {
        assert_eq!(*out, if i < 50 { 3.0 * (a[i] + b[i]) } else { 0.0 }, "element {i}");
    }
}

fn types_by_macro_are_what_they_stand_for(on: &dyn Launcher) {
    let config = LaunchConfig::cover(N, 32);
    let (x, mut y) = (floats(1), floats(2));
    let (x_int, mut y_int): (Vec<i64>, Vec<i64>) = ((0..N as i64).collect(), vec![i64::MAX - 300; N]);
    // SAFETY: each output is as long as its input.
    unsafe {
        axpy_f32::launch(on, config, 2.0, &x, &mut y).unwrap();
        axpy_i64::launch(on, config, 3, &x_int, &mut y_int).unwrap();
    }
    for i in 0..N {
        assert_eq!(y[i], 2.0 * x[i] + floats(2)[i]);
        assert_eq!(y_int[i], 3 * i as i64 + (i64::MAX - 300));
    }
}

/// Pointers inside what is passed by value are the caller's affair: no launcher knows of their memory.
fn by_value_with_pointers(on: &dyn Launcher, inp: &[f32], last: &[f32; 1]) {
    let config = LaunchConfig::cover(N, 32);
    let map = Affine { factor: 0.5, offset: 100.0, steps: [1, 2, 3] };
    let mut out = vec![0.0; N];
    let mut tail = vec![0.0; N - 30];
    // SAFETY: `out` is as long as `inp`, `tail` as its rest, and all pointers are lent to the launcher.
    unsafe {
        by_value::launch(on, config, map, inp, (), [10.0, 20.0, 30.0], (0.5, 2), Some(&last[0]), &mut out)
            .unwrap();
        from_view::launch(on, config, View { start: 30, values: inp }, &mut tail).unwrap();
    }
    for i in 0..N - 1 {
        assert_eq!(out[i], 0.5 * inp[i] + 106.0 + [10.0, 20.0, 30.0][i % 3] + 2.5, "element {i}");
    }
    assert_eq!(out[N - 1], last[0]);
    assert_eq!(tail, inp[30..]);
}

#[test]
fn structs_go_by_value() {
    by_value_with_pointers(&Executor::new(), &floats(5), &[-1.0]);
    let (mut inp, mut last) = (floats(5), [-1.0]);
    let mut emulator = common::emulator(Backend::Nvvm);
    // SAFETY: both outlive the launches, and nobody writes them.
    unsafe {
        emulator.lend(&mut inp);
        emulator.lend(&mut last);
    }
    by_value_with_pointers(&emulator, &inp, &last);
}

const MAP: Affine = Affine { factor: 0.0, offset: 0.0, steps: [0, 0, 9] };

fn one_struct_is_all_arguments(on: &dyn Launcher) {
    let config = LaunchConfig::cover(N, 32);
    let (inp, mut out, mut marks) = (floats(3), vec![0.0; N], [0; N]);
    let (inp_int, mut out_int): (Vec<i64>, Vec<i64>) = ((0..N as i64).collect(), vec![0; N]);
    let index = &(0..N as u32).rev().collect::<Vec<_>>();
    let (seen, seen_int) = (&mut marks, &mut [0; N]);
    // SAFETY: all buffers have `N` elements, and the indices are below `N`.
    unsafe {
        let (out, inp, shift) = (&mut out, &inp, [1.0, 0.5]);
        gather_f32::launch(on, config, GatherHost { first: 5, out, index, inp, shift, seen, map: MAP })
            .unwrap();
        let (out, inp, shift, seen) = (&mut out_int, &inp_int, [1, 2, 1 << 40], seen_int);
        // The only one of the list for this type.
        let [kernel] = <gather as KernelsOf<Gather<i64, 3>>>::INSTANCES else { panic!("not one kernel") };
        assert_eq!((kernel.meta.name, kernel.facts), ("gather_i64", 3));
        kernel.launch(on, config, GatherHost { first: 0, out, index, inp, shift, seen, map: MAP }).unwrap();
    }
    for i in 0..N {
        let expected = if i < 5 { (0.0, 0) } else { (inp[N - 1 - i] + 1.5, 9) };
        assert_eq!((out[i], marks[i]), expected, "element {i}");
        assert_eq!(out_int[i], inp_int[N - 1 - i] + 3 + (1 << 40), "element {i}");
    }
}

/// Memory of a GPU, as it says.
struct Elsewhere;

// SAFETY: the launch is refused.
unsafe impl PtrArg<u32> for Elsewhere {
    fn as_raw_ptr(&self) -> *const u32 {
        core::ptr::dangling()
    }
    fn residence(&self) -> Residence {
        Residence::Cuda(1)
    }
}

fn fields_elsewhere_are_refused(on: &dyn Launcher) {
    let (inp, mut out, mut seen) = (floats(3), vec![0.0; N], [0; N]);
    let (out, inp, index, seen) = (&mut out, &inp, Elsewhere, &mut seen);
    let args = GatherHost { first: 0, out, index, inp, shift: [0.0; 2], seen, map: MAP };
    // SAFETY: it does not run.
    let error = unsafe { gather_f32::launch(on, LaunchConfig::cover(N, 32), args) }.unwrap_err();
    assert!(matches!(error, LaunchError::WrongDevice { argument: "index", .. }), "{error}");
    // So are they by a kernel of a list, and without their borrows.
    let (inp, mut out, mut seen) = (floats(3), vec![0.0; N], [0; N]);
    let (out, inp, index, seen) = (&mut out, &inp, RawBuffer::read(Elsewhere), &mut seen);
    let args = GatherHost { first: 0, out, index, inp, shift: [0.0; 2], seen, map: MAP };
    let kernel = &<gather as KernelsOf<Gather<f32, 2>>>::INSTANCES[0];
    // SAFETY: as above.
    let error = unsafe { kernel.launch(on, LaunchConfig::cover(N, 32), args) }.unwrap_err();
    assert!(matches!(error, LaunchError::WrongDevice { argument: "index", .. }), "{error}");
}

#[test]
fn the_emulator_knows_the_buffers_in_a_struct() {
    let launch = |inp: &[f32], seen: &mut [u16]| {
        let (mut out, index) = (vec![0.0; N], [0; N]);
        let (out, index) = (&mut out, &index);
        let args = GatherHost { first: 0, out, index, inp, shift: [0.0; 2], seen, map: MAP };
        // SAFETY: where a buffer is too short, the emulator stops the kernel.
        unsafe { gather_f32::launch(&common::emulator(Backend::Nvvm), LaunchConfig::cover(N, 32), args) }
    };
    let (inp, mut seen) = (floats(3), [0; N]);
    launch(&inp, &mut seen).unwrap();
    let error = launch(&inp, &mut seen[..N - 1]).unwrap_err().to_string();
    assert!(error.contains("outside of every allocation of global memory"), "{error}");
    assert!(error.contains("store of 2 bytes"), "{error}");
}

#[test]
fn a_struct_of_raw_pointers_is_the_callers_affair() {
    let (inp, mut out, mut seen, index) = (floats(3), vec![0.0; N], [0; N], [1; N]);
    let (out, inp) = (&raw mut out[..], &raw const inp[..]);
    let (index, seen) = (index.as_ptr(), seen.as_mut_ptr());
    let args = Gather { first: 0, out, index, inp, shift: [0.0; 2], seen, map: MAP };
    // SAFETY: all have `N` elements.
    unsafe { gather_f32::launch(&Executor::new(), LaunchConfig::cover(N, 32), args) }.unwrap();
    // SAFETY: the launch has ended.
    assert_eq!(unsafe { &*out }, [floats(3)[1]; N]);
}

fn layouts_are_the_hosts(on: &dyn Launcher) {
    let mut out = vec![[0, 0]; TYPES.len()];
    // SAFETY: a pair for each type.
    unsafe { layouts::launch(on, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    for ((name, seen), here) in TYPES.iter().zip(&out).zip(layouts_here()) {
        assert_eq!(*seen, here, "size and alignment of {name}");
    }
    // CUDA's float2, float4, double2 and short4 (CUDA C++ Programming Guide, "Built-in Vector Types").
    for (name, layout) in [
        ("Vec2", [8, 8]),
        ("Vec3", [12, 4]),
        ("Vec4", [16, 16]),
        ("DVec2", [16, 16]),
        ("UVec2", [8, 8]),
        ("UVec3", [12, 4]),
        ("IVec4", [16, 16]),
        ("I16Vec4", [8, 8]),
        ("U64Vec2", [16, 16]),
    ] {
        let at = TYPES.iter().position(|ty| *ty == name).unwrap();
        assert_eq!(out[at], layout, "CUDA's size and alignment of {name}");
    }
}

mod scale {
    pub fn one(x: &mut f32, factor: f32) {
        *x *= factor;
    }
}

/// A kernel next to a module of the same name.
#[kernel]
unsafe fn scale(out: *mut [f32], factor: f32) {
    (&mut *out).iter_mut().for_each(|x| scale::one(x, factor));
}

#[test]
fn a_module_of_the_name_is_no_obstacle() {
    let mut out = floats(1);
    // SAFETY: the slice is valid for all its elements.
    unsafe { scale_kernel::launch(&Executor::new(), LaunchConfig::new(1, 1), &mut out, 3.0) }.unwrap();
    assert!(out.iter().zip(floats(1)).all(|(seen, x)| *seen == 3.0 * x));
}
