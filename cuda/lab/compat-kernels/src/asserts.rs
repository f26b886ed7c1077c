//! Assertions with braces, messages and arguments.

use cuda_std::prelude::*;

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
