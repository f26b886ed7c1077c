//! The runtime of all generated programs. It is in the crate that the kernels depend on.

/// Receives the emitted values: words go into the output while there is room, and all of them into a hash at its start.
pub struct Sink<'a> {
    output: &'a mut [u8],
    at: usize,
    hash: u64,
}

impl<'a> Sink<'a> {
    pub fn new(output: &'a mut [u8]) -> Sink<'a> {
        output.fill(0);
        Sink { output, at: 8, hash: 0 }
    }

    #[inline(never)]
    pub fn word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        if self.at + 8 <= self.output.len() {
            self.output[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
            self.at += 8;
        }
    }

    pub fn end(self) {
        self.output[..8].copy_from_slice(&self.hash.to_le_bytes());
    }
}

/// A value that can be emitted, and mixed into a number.
pub trait Emit {
    fn emit(&self, s: &mut Sink<'_>);
    fn mix(&self, hash: u64) -> u64;
}

fn mixed(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

macro_rules! emit_ints {
    ($($int:ty)*) => {$(
        impl Emit for $int {
            #[inline]
            fn emit(&self, s: &mut Sink<'_>) {
                s.word(*self as u64);
            }
            #[inline]
            fn mix(&self, hash: u64) -> u64 {
                mixed(hash, *self as u64)
            }
        }
    )*};
}
emit_ints!(u8 u16 u32 u64 usize i8 i16 i32 i64 bool);

impl Emit for u128 {
    fn emit(&self, s: &mut Sink<'_>) {
        s.word(*self as u64);
        s.word((*self >> 64) as u64);
    }
    fn mix(&self, hash: u64) -> u64 {
        mixed(mixed(hash, *self as u64), (*self >> 64) as u64)
    }
}

impl Emit for i128 {
    fn emit(&self, s: &mut Sink<'_>) {
        (*self as u128).emit(s);
    }
    fn mix(&self, hash: u64) -> u64 {
        (*self as u128).mix(hash)
    }
}

impl Emit for char {
    fn emit(&self, s: &mut Sink<'_>) {
        s.word(u64::from(u32::from(*self)));
    }
    fn mix(&self, hash: u64) -> u64 {
        mixed(hash, u64::from(u32::from(*self)))
    }
}

impl Emit for f32 {
    fn emit(&self, s: &mut Sink<'_>) {
        s.word(if self.is_nan() { 0x7fc0_0000 } else { u64::from(self.to_bits()) });
    }
    fn mix(&self, hash: u64) -> u64 {
        mixed(hash, if self.is_nan() { 5 } else { u64::from(self.to_bits()) })
    }
}

impl Emit for f64 {
    fn emit(&self, s: &mut Sink<'_>) {
        s.word(if self.is_nan() { 0x7ff8_0000_0000_0000 } else { self.to_bits() });
    }
    fn mix(&self, hash: u64) -> u64 {
        mixed(hash, if self.is_nan() { 6 } else { self.to_bits() })
    }
}

impl<T: Emit> Emit for [T] {
    fn emit(&self, s: &mut Sink<'_>) {
        self.iter().for_each(|one| one.emit(s));
    }
    fn mix(&self, hash: u64) -> u64 {
        self.iter().fold(hash, |hash, one| one.mix(hash))
    }
}

impl<T: Emit, const N: usize> Emit for [T; N] {
    fn emit(&self, s: &mut Sink<'_>) {
        self.as_slice().emit(s);
    }
    fn mix(&self, hash: u64) -> u64 {
        self.as_slice().mix(hash)
    }
}

impl<T: Emit> Emit for Option<T> {
    fn emit(&self, s: &mut Sink<'_>) {
        s.word(u64::from(self.is_some()));
        self.iter().for_each(|one| one.emit(s));
    }
    fn mix(&self, hash: u64) -> u64 {
        self.iter().fold(mixed(hash, 1), |hash, one| one.mix(hash))
    }
}

impl<A: Emit> Emit for (A,) {
    fn emit(&self, s: &mut Sink<'_>) {
        self.0.emit(s);
    }
    fn mix(&self, hash: u64) -> u64 {
        self.0.mix(hash)
    }
}

impl<A: Emit, B: Emit> Emit for (A, B) {
    fn emit(&self, s: &mut Sink<'_>) {
        self.0.emit(s);
        self.1.emit(s);
    }
    fn mix(&self, hash: u64) -> u64 {
        self.1.mix(self.0.mix(hash))
    }
}

macro_rules! halves {
    ($($name:ident $nan:literal $widen:ident $narrow:ident;)*) => {$(
        /// A 16-bit float: arithmetic is in `f32`, and a result is rounded once.
        #[derive(Clone, Copy)]
        pub struct $name(pub u16);

        impl $name {
            pub fn wide(self) -> f32 {
                let wide = $widen(self.0);
                if wide.is_nan() { f32::NAN } else { wide }
            }

            pub fn of(wide: f32) -> $name {
                $name(if wide.is_nan() { $nan } else { $narrow(wide) })
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.wide() == other.wide()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<core::cmp::Ordering> {
                self.wide().partial_cmp(&other.wide())
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(&self.wide(), f)
            }
        }

        impl Emit for $name {
            fn emit(&self, s: &mut Sink<'_>) {
                $name::of(self.wide()).0.emit(s);
            }
            fn mix(&self, hash: u64) -> u64 {
                $name::of(self.wide()).0.mix(hash)
            }
        }
    )*};
}
halves! { F16 0x7e00 widen narrow; Bf16 0x7fc0 widen_bf16 narrow_bf16; }

/// The numbers of generic functions.
pub trait Num: Copy + PartialOrd + Emit {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn mixed(self, other: Self) -> Self;
    fn of(word: u64) -> Self;
    fn word(self) -> u64;
}

macro_rules! num_ints {
    ($($int:ty)*) => {$(
        impl Num for $int {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn mixed(self, other: Self) -> Self {
                self.rotate_left(3) ^ other
            }
            fn of(word: u64) -> Self {
                word as $int
            }
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}
num_ints!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128);

macro_rules! num_floats {
    ($($float:ty)*) => {$(
        impl Num for $float {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn mixed(self, other: Self) -> Self {
                self * 0.5 - other
            }
            fn of(word: u64) -> Self {
                word as $float
            }
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}
num_floats!(f32 f64);

macro_rules! at {
    ($($name:ident $int:ty;)*) => {$(
        /// Reads a number from the input.
        pub fn $name(input: &[u8; 64], at: usize) -> $int {
            let mut bytes = [0; size_of::<$int>()];
            bytes.copy_from_slice(&input[at..at + size_of::<$int>()]);
            <$int>::from_le_bytes(bytes)
        }
    )*};
}
at! { u8_at u8; u16_at u16; u32_at u32; u64_at u64; u128_at u128; }

pub fn bool_at(input: &[u8; 64], at: usize) -> bool {
    input[at] & 1 == 1
}

pub fn char_at(input: &[u8; 64], at: usize) -> char {
    char::from_u32(u32_at(input, at) % 0x3000).unwrap_or('\u{1f600}')
}

pub fn f16_at(input: &[u8; 64], at: usize) -> F16 {
    F16::of(F16(u16_at(input, at)).wide())
}

pub fn bf16_at(input: &[u8; 64], at: usize) -> Bf16 {
    Bf16::of(Bf16(u16_at(input, at)).wide())
}

pub fn f32_at(input: &[u8; 64], at: usize) -> f32 {
    let x = f32::from_bits(u32_at(input, at));
    if x.is_nan() { f32::NAN } else { x }
}

pub fn f64_at(input: &[u8; 64], at: usize) -> f64 {
    let x = f64::from_bits(u64_at(input, at));
    if x.is_nan() { f64::NAN } else { x }
}

#[inline(never)]
pub fn twice<A, B>(f: impl Fn(A) -> B, a: A, b: A) -> (B, B) {
    let first = f(a);
    (first, f(b))
}

#[inline(never)]
pub fn by_object<A, B>(f: &dyn Fn(A) -> B, a: A, b: A) -> (B, B) {
    let first = f(a);
    (first, f(b))
}

#[inline(never)]
pub fn passed<T>(x: T) -> T {
    x
}

#[inline(never)]
pub fn either<T>(is_first: bool, a: T, b: T) -> T {
    if is_first { a } else { b }
}

#[inline(never)]
pub fn same<T: PartialEq>(a: T, b: T) -> bool {
    a == b
}

#[inline(never)]
pub fn less<T: PartialOrd>(a: T, b: T) -> bool {
    a < b
}

#[inline(never)]
pub fn ordered<T: Ord>(a: T, b: T) -> i8 {
    a.cmp(&b) as i8
}

struct Hasher(u64);

impl core::hash::Hasher for Hasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| mixed(hash, u64::from(*byte)));
    }
}

/// A hash from the derived implementation.
#[inline(never)]
pub fn hashed<T: core::hash::Hash>(x: &T) -> u64 {
    use core::hash::Hasher as _;
    let mut hasher = Hasher(1);
    x.hash(&mut hasher);
    hasher.finish()
}

struct Text {
    bytes: [u8; 96],
    len: usize,
    hash: u64,
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for &byte in text.as_bytes() {
            if let Some(to) = self.bytes.get_mut(self.len) {
                *to = byte;
            }
            self.len += 1;
            self.hash = mixed(self.hash, u64::from(byte));
        }
        Ok(())
    }
}

/// The length and hash of a text, and some of its bytes.
#[inline(never)]
pub fn shown(text: core::fmt::Arguments<'_>) -> u64 {
    let mut all = Text { bytes: [0; 96], len: 0, hash: 2 };
    let is_written = core::fmt::write(&mut all, text).is_ok();
    let some = u64::from(all.bytes[all.len / 2 % 96]);
    all.hash << 16 | (all.len as u64 & 0x7f) << 9 | some << 1 | u64::from(is_written)
}

