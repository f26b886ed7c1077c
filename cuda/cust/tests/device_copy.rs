//! `#[derive(DeviceCopy)]`.

use std::marker::PhantomData;

use cust::DeviceCopy;
use cust::memory::DevicePointer;

#[derive(Clone, Copy, DeviceCopy)]
struct Particle<T> {
    _at: [T; 3],
    _kind: Kind,
    _next: DevicePointer<u32>,
}

#[derive(Clone, Copy, DeviceCopy)]
enum Kind {
    Resting,
    Moving { _speed: f32, _colour: (u8, u8, u8) },
    Held { _bits: Bits },
}

#[derive(Clone, Copy, DeviceCopy)]
union Bits {
    _float: f32,
    _word: u32,
}

/// Compiles for what may be copied.
fn copied(_: impl cust::memory::DeviceCopy) {}

#[test]
fn structs_of_plain_values_are_copied() {
    let moving = Kind::Moving { _speed: 1.0, _colour: (1, 2, 3) };
    copied([Kind::Resting, Kind::Held { _bits: Bits { _word: 7 } }, moving]);
    copied(Particle { _at: [0.5f64; 3], _kind: moving, _next: DevicePointer::null() });
    copied((Some(moving), Ok::<u8, ()>(1), PhantomData::<String>));
}
