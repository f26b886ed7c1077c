//! The standard library's own `core`: sorts of 1 to 100 elements, and enums that are passed by value and compared.
//!
//! A sort of more than 20 elements partitions without branches, by indices that are sign-extended booleans. An enum
//! whose variants hold a boolean or nothing leaves registers unwritten on some paths.

use core::hash::{Hash, Hasher};

use super::out::Out;

/// The longest that is sorted.
const MOST: usize = 100;

/// `number` is the length, plus 256 for each other kind of values: random, few, rising, falling, and nearly sorted.
fn values<T: Copy + Default, const BYTES: usize>(
    input: &[u8],
    number: u32,
    from: impl Fn([u8; BYTES]) -> T,
) -> ([T; MOST], usize) {
    let (len, kind) = (number as usize % 256, number / 256);
    let mut all = [T::default(); MOST];
    for (i, value) in all[..len].iter_mut().enumerate() {
        let mut bytes = [0; BYTES];
        let index = |at: usize| input[(i * BYTES + at) % input.len()];
        match kind {
            0 => bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = index(at)),
            1 => bytes[0] = index(0) % 4,
            2 => bytes[0] = i as u8,
            3 => bytes[0] = (len - i) as u8,
            _ => bytes[0] = if index(0) < 40 { index(1) } else { i as u8 },
        }
        *value = from(bytes);
    }
    (all, len)
}

fn sorted<T: Copy + Default + Ord, const BYTES: usize>(
    input: &[u8],
    number: u32,
    output: &mut [u8],
    from: impl Fn([u8; BYTES]) -> T,
    to: impl Fn(T) -> [u8; BYTES],
) {
    let (mut all, len) = values(input, number, from);
    all[..len].sort_unstable();
    let mut out = Out::new(output);
    all[..len].iter().for_each(|&value| out.bytes(&to(value)));
}

pub fn sort_bytes(input: &[u8], number: u32, output: &mut [u8]) {
    sorted(input, number, output, u8::from_le_bytes, u8::to_le_bytes);
}

pub fn sort_words(input: &[u8], number: u32, output: &mut [u8]) {
    sorted(input, number, output, i32::from_le_bytes, i32::to_le_bytes);
}

pub fn sort_long(input: &[u8], number: u32, output: &mut [u8]) {
    sorted(input, number, output, u64::from_le_bytes, u64::to_le_bytes);
}

/// An array of a known length, whose sort is compiled for it.
pub fn sort_array(input: &[u8], number: u32, output: &mut [u8]) {
    let (all, _) = values(input, number & !0xff | MOST as u32, u64::from_le_bytes);
    let mut out = Out::new(output);
    let mut few: [u64; 21] = core::array::from_fn(|i| all[i]);
    let mut many: [u64; 26] = core::array::from_fn(|i| all[i + 21]);
    few.sort_unstable();
    many.sort_unstable_by(|a, b| b.cmp(a));
    few.iter().chain(&many).for_each(|&value| out.number(value));
}

/// Every place of a slice, by selection, and where a search then finds it.
pub fn select(input: &[u8], number: u32, output: &mut [u8]) {
    let (all, len) = values(input, number, u32::from_le_bytes);
    let mut out = Out::new(output);
    for place in [0, len / 3, len / 2, len - 1] {
        let mut copy = all;
        let (before, found, after) = copy[..len].select_nth_unstable(place);
        let found = *found;
        out.number(found.into());
        let is_apart = before.iter().all(|x| *x <= found) && after.iter().all(|x| *x >= found);
        out.number(u64::from(is_apart));
    }
    let mut keys = all;
    keys[..len].sort_unstable_by_key(|x| (x.count_ones(), *x));
    keys[..len].iter().for_each(|x| out.bytes(&x.to_le_bytes()));
}

/// What may hold a number, a boolean or nothing.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Hash)]
enum Payload {
    Given(u32),
    Asked(bool),
    Signed(i8),
    Zero,
}

/// Discriminants on both sides of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
enum Side {
    Far = -300,
    Left = -1,
    Here = 0,
    Right = 7,
}

/// Variants in the niches of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Nested {
    Side(Option<Side>),
    Order(Option<core::cmp::Ordering>),
    Flag(Option<Option<bool>>),
    Letter(char),
}

#[inline(never)]
fn worth(payload: Payload) -> u64 {
    match payload {
        Payload::Given(x) => x.into(),
        Payload::Asked(x) => u64::from(x) + 1,
        Payload::Signed(x) => x as u64,
        Payload::Zero => 77,
    }
}

#[inline(never)]
fn pass(payload: Payload) -> Payload {
    if worth(payload) == 5 { Payload::Zero } else { payload }
}

#[inline(never)]
fn payload(x: u8, y: u64) -> Payload {
    match x % 8 {
        0 | 1 => Payload::Given(y as u32),
        2..=4 => Payload::Asked(y & 1 == 1),
        5 => Payload::Signed(y as i8),
        _ => Payload::Zero,
    }
}

#[inline(never)]
fn side(x: u8) -> Option<Side> {
    [None, Some(Side::Far), Some(Side::Left), Some(Side::Here), Some(Side::Right)][x as usize % 5]
}

#[inline(never)]
fn nested(x: u8, y: u64) -> Nested {
    match x % 7 {
        0 | 1 => Nested::Side(side(y as u8)),
        2 => Nested::Order((y % 3 != 0).then(|| (y as u8).cmp(&100))),
        3 => Nested::Flag([None, Some(None), Some(Some(false)), Some(Some(true))][y as usize % 4]),
        4 => Nested::Flag(None),
        5 => Nested::Letter(char::from(y as u8)),
        _ => Nested::Letter('\u{10ffff}'),
    }
}

#[inline(never)]
fn turned(nested: Nested) -> Nested {
    match nested {
        Nested::Side(Some(side)) if (side as i16) < 0 => Nested::Side(None),
        Nested::Side(None) => Nested::Order(None),
        Nested::Flag(Some(Some(flag))) => Nested::Flag((!flag).then_some(None)),
        other => other,
    }
}

/// FNV-1a.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut fnv);
    fnv.finish()
}

/// Enums by value, compared and hashed by what `derive` writes.
pub fn enums(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut before = (Payload::Zero, None, Nested::Flag(None));
    for piece in input.chunks_exact(8) {
        let y = piece.iter().rev().fold(0, |y, &byte| y << 8 | u64::from(byte));
        let now = (payload(piece[0], y >> 8), side(piece[1]), nested(piece[2], y >> 24));
        out.number(worth(now.0) << 1 | u64::from(pass(now.0) == now.0));
        out.number(hash(now) ^ hash(turned(now.2)));
        let orders = [
            now.0.partial_cmp(&before.0).map_or(9, |order| order as i8),
            now.1.cmp(&before.1) as i8,
            now.2.cmp(&before.2) as i8,
            turned(now.2).cmp(&now.2) as i8,
            i8::from(now == before),
            now.1.map_or(100, |side| (side as i16 >> 2) as i8),
        ];
        out.bytes(&orders.map(|order| order as u8));
        before = now;
    }
}

/// Every length, five kinds of values each.
#[cfg(not(target_arch = "nvptx64"))]
pub fn cases() -> Vec<crate::inputs::Case> {
    let numbers = (0..5).flat_map(|kind| (1..=MOST as u32).map(move |len| len + 256 * kind));
    numbers.map(|number| (number, crate::inputs::Random::new(number.into()).bytes(8 * MOST))).collect()
}
