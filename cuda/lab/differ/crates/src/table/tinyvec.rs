//! tinyvec: a vector within an array, all of whose elements are written.

use ::tinyvec::ArrayVec;

use super::out::Out;

pub fn edits(input: &[u8], number: u32, output: &mut [u8]) {
    let mut all: ArrayVec<[u32; 21]> = ArrayVec::new();
    for &byte in input {
        let at = usize::from(byte) % (all.len() + 1);
        match (byte ^ number as u8) % 6 {
            0 if all.len() < all.capacity() => all.insert(at, u32::from(byte)),
            1 if at < all.len() => drop(all.remove(at)),
            2 => all.truncate(at),
            3 => drop(all.splice(at / 2..at, [7, u32::from(byte)].into_iter().take(at / 2)).count()),
            _ => drop(all.try_push(u32::from(byte).rotate_left(u32::from(byte)))),
        }
    }
    let mut out = Out::new(output);
    out.bytes(&[all.len() as u8]);
    all.iter().rev().for_each(|value| out.bytes(&value.to_le_bytes()));
}
