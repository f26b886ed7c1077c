//! The device heap, text, output, and assertions with braces, messages and arguments.

use cuda_std::prelude::*;

extern crate alloc;

use alloc::collections::BTreeMap;

/// out = twice the sum of the digits of inp, through text, a tree and a shared pointer; one thread per number.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn digit_sums(inp: &[u64], out: *mut u64) {
    let i = thread::index_1d() as usize;
    if i >= inp.len() {
        return;
    }
    let text = inp[i].to_string();
    let mut counts: BTreeMap<char, u64> = BTreeMap::new();
    for digit in text.chars() {
        *counts.entry(digit).or_default() += 1;
    }
    let shared = Rc::new(counts);
    let other = Rc::clone(&shared);
    *out.add(i) =
        other.iter().map(|(digit, count)| u64::from(digit.to_digit(10).unwrap()) * count).sum::<u64>()
            * Rc::strong_count(&shared) as u64;
}

/// `out[i]` = a line about `values[i]`, `width` bytes each, padded with spaces.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn format_values(values: &[f32], width: usize, out: *mut u8) {
    let i = thread::index_1d() as usize;
    if i >= values.len() {
        return;
    }
    let line =
        format!("{i:>3}: {:.3} {:e} {:?} {:#x}", values[i], values[i], Some(values[i]), values[i].to_bits());
    let line = line.into_bytes();
    for (at, slot) in core::slice::from_raw_parts_mut(out.add(i * width), width).iter_mut().enumerate() {
        *slot = line.get(at).copied().unwrap_or(b' ');
    }
}

#[repr(align(256))]
struct Wide([u8; 256]);

trait Shape {
    fn area(&self) -> f32;
}
struct Square(f32);
struct Circle(f32);
impl Shape for Square {
    fn area(&self) -> f32 {
        self.0 * self.0
    }
}
impl Shape for Circle {
    fn area(&self) -> f32 {
        3.0 * self.0 * self.0
    }
}

/// Allocates boxes of several alignments: out = the number that are misaligned or lose their content.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn aligned_boxes(out: *mut u32, areas: *mut f32) {
    let i = thread::index_1d();
    let mut wrong = 0;
    let bytes: Vec<Box<u8>> = (0..5).map(Box::new).collect();
    let wides: Vec<Box<Wide>> = (0..5).map(|n| Box::new(Wide([n; 256]))).collect();
    let longs: Vec<Box<u128>> = (0..5).map(|n| Box::new(n << 100)).collect();
    for n in 0..5 {
        wrong += u32::from(*bytes[n] != n as u8);
        wrong += u32::from(wides[n].0 != [n as u8; 256]);
        wrong += u32::from((&*wides[n] as *const Wide).align_offset(256) != 0);
        wrong += u32::from(*longs[n] >> 100 != n as u128);
    }
    *out.add(i as usize) = wrong;
    let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(i as f32)), Box::new(Circle(2.0))];
    *areas.add(i as usize) = shapes.iter().map(|shape| shape.area()).sum();
}

/// Prints a greeting, one line per thread, with characters that break a format.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn hello(name: &[u8]) {
    let i = thread::index_1d();
    if i == 0 {
        println!("constant 100 %s");
        println!();
    }
    let name = core::str::from_utf8(name).unwrap_or("?");
    println!("hello {name} from {i} of {}: {:5.1} %d", thread::block_dim_x(), i as f32 / 3.0);
    print!("a\0b{i}");
    println!();
}

/// Allocates more than the heap has.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn exhausts_the_heap(out: *mut u8) {
    let huge: Vec<u8> = Vec::with_capacity(1 << 46);
    *out = huge.capacity() as u8;
}

/// Uses the heap through C's functions.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn by_malloc(n: usize, out: *mut u32) {
    let numbers = cuda_std::mem::malloc(n * 4) as *mut u32;
    for k in 0..n {
        *numbers.add(k) = k as u32 * k as u32;
    }
    *out.add(thread::index_1d() as usize) = (0..n).map(|k| *numbers.add(k)).sum();
    cuda_std::mem::free(numbers as *mut _);
}

/// Makes a different assertion about `*x` for each value of `which`.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc, unused_unsafe)]
pub unsafe fn assert_all(which: u32, x: *const f32) {
    let limits = [0.0, 8.0];
    match which {
        0 => assert_eq!(unsafe { *x }, 1.0),
        1 => assert_eq!(unsafe { *x }, 1.0, "one is expected"),
        2 => assert_eq!({ *x }, { 1.0 }, "{} is no {one}, {{ {:?} }}", *x, Some(2), one = 1),
        3 => assert_ne!(unsafe { *x }, 2.0),
        4 => assert_ne!({ *x }, 2.0, "two: {}", *x),
        5 => assert!({ *x } < 1.0),
        6 => assert!(matches!(*x, x if { x < 1.0 }), "{x} 100 % {:>4}", 7, x = *x),
        7 => debug_assert_eq!(unsafe { *x }, 2.0),
        8 => cuda_std::assert_eq!(limits.iter().filter(|l| { **l < *x }).count(), 2),
        9 => {
            limits.iter().position(|l| *l > 9.0).expect("a { brace");
        }
        _ => unreachable!("{{}} {which}"),
    }
}

/// Called from other modules that a linker joins with this one.
#[cuda_std::externally_visible]
#[unsafe(no_mangle)]
pub extern "C" fn scaled_twice(x: f32, factor: f32) -> f32 {
    x * factor * factor
}
