//! Matrix instructions (PTX ISA, "Matrix Multiply-Accumulate Operation using mma instruction").
//!
//! A matrix is gathered from the registers of the lanes. An element of the product is the exact sum, rounded once: the ISA
//! leaves order and precision open. Undefined bits in a row of A, a column of B or an element of C make the element of the
//! product undefined.

use super::Exec;
use super::float::NAN32;
use super::half::widen;
use super::memory::{Access, Place};
use super::thread::Cx;
use super::undefined::Bits;
use crate::instr::{MmaTy, Slot, Tensor};

const LANES: usize = 32;

/// A register's content, by lane.
type Row = [Bits; LANES];

/// Passes a lane's context to a function.
pub(super) type WithLane<'w> = dyn FnMut(usize, &mut dyn FnMut(&mut Cx<'_>) -> Exec) -> Exec + 'w;

/// Executes an instruction that all lanes have reached. An error belongs to the last lane whose context was used.
pub(super) fn execute(tensor: &Tensor, lanes: &mut WithLane<'_>) -> Exec {
    match tensor {
        Tensor::Mma { ty, k, d, a, b, c } => {
            let (a, b, c) = (gather(lanes, a)?, gather(lanes, b)?, gather(lanes, c)?);
            scatter(lanes, d, |lane, i| product(*ty, *k, [&a, &b, &c], position_c(lane, i)))
        }
        Tensor::Move { d, a } => {
            let a = gather(lanes, &[*a])?;
            let matrices = [matrix_of(&a[0])];
            scatter(lanes, &[*d], |lane, _| pair(&matrices[0], lane, true))
        }
        Tensor::Load { at, trans, d } => {
            let mut matrices = vec![[[Bits::new(0); 8]; 8]; d.len()];
            for row in 0..8 * d.len() {
                lanes(row, &mut |cx| {
                    let place = cx.place(at, 16, Access::Load)?;
                    let numbers: [Bits; 8] = core::array::from_fn(|i| cx.load(place.plus(2 * i as u64), 2));
                    if numbers.iter().any(|bits| bits.undefined != 0) {
                        let address = cx.value(at.base)?.wrapping_add_signed(at.offset);
                        cx.note(at.space.name(), address);
                    }
                    matrices[row / 8][row % 8] = numbers;
                    Ok(())
                })?;
            }
            scatter(lanes, d, |lane, i| pair(&matrices[i], lane, *trans))
        }
        Tensor::Store { at, trans, values } => {
            let values = gather(lanes, values)?;
            let mut places = Vec::<Place>::new();
            for row in 0..8 * values.len() {
                lanes(row, &mut |cx| {
                    places.push(cx.place(at, 16, Access::Store)?);
                    Ok(())
                })?;
            }
            for (row, place) in places.into_iter().enumerate() {
                let matrix = matrix_of(&values[row / 8]);
                lanes(row, &mut |cx| {
                    for (i, column) in matrix.iter().enumerate() {
                        let value = if *trans { column[row % 8] } else { matrix[row % 8][i] };
                        cx.store(place.plus(2 * i as u64), 2, value);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        }
    }
}

/// The contents of these registers in all lanes.
fn gather(lanes: &mut WithLane<'_>, slots: &[Slot]) -> Exec<Vec<Row>> {
    let mut all = vec![[Bits::new(0); LANES]; slots.len()];
    for lane in 0..LANES {
        lanes(lane, &mut |cx| {
            for (row, &slot) in all.iter_mut().zip(slots) {
                row[lane] = cx.bits(slot).and(0xffff_ffff);
            }
            Ok(())
        })?;
    }
    Ok(all)
}

/// Writes `of(lane, i)` to register `i` of each lane.
fn scatter(lanes: &mut WithLane<'_>, slots: &[Slot], of: impl Fn(usize, usize) -> Bits) -> Exec {
    for lane in 0..LANES {
        lanes(lane, &mut |cx| {
            for (i, &slot) in slots.iter().enumerate() {
                cx.frame.set_bits(slot, of(lane, i));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The matrix of 8 x 8 16-bit numbers in the lanes' registers; each register holds two neighbours of a row.
fn matrix_of(registers: &Row) -> [[Bits; 8]; 8] {
    core::array::from_fn(|row| {
        core::array::from_fn(|column| {
            registers[row * 4 + column / 2].map(|raw| raw >> (16 * (column % 2)) & 0xffff)
        })
    })
}

/// A lane's register of a matrix.
fn pair(matrix: &[[Bits; 8]; 8], lane: usize, trans: bool) -> Bits {
    let (row, column) = (lane / 4, lane % 4 * 2);
    let at = |row: usize, column: usize| if trans { matrix[column][row] } else { matrix[row][column] };
    let (low, high) = (at(row, column), at(row, column + 1));
    Bits { value: low.value | high.value << 16, undefined: low.undefined | high.undefined << 16 }
}

/// Row and column of element `i` of C and D.
fn position_c(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + if i < 2 { 0 } else { 8 }, lane % 4 * 2 + (i & 1))
}

/// The number in the given half of a register; `None` if it has undefined bits.
fn number(ty: MmaTy, bits: Bits, half: usize) -> Option<f64> {
    let (value, mask) = match ty {
        MmaTy::Half(ty) => {
            let shift = 16 * half;
            (f64::from(widen(ty, (bits.value >> shift) as u16)), 0xffff << shift)
        }
        MmaTy::Tf32 => (f64::from(f32::from_bits(bits.value as u32 & !0x1fff)), 0xffff_e000),
    };
    (bits.undefined & mask == 0).then_some(value)
}

/// One element of D.
fn product(ty: MmaTy, k: usize, [a, b, c]: [&[Row]; 3], (row, column): (usize, usize)) -> Bits {
    // Columns of A, and rows of B, per register of a lane; four lanes hold those of a block.
    let wide = if ty == MmaTy::Tf32 { 1 } else { 2 };
    let mut sum = match c[(row / 8) * 2 + column % 2][row % 8 * 4 + column / 2] {
        Bits { value, undefined: 0 } => f64::from(f32::from_bits(value as u32)),
        _ => return Bits::UNDEFINED.and(0xffff_ffff),
    };
    for at in 0..k {
        let (block, lane, half) = (at / (4 * wide), at % (4 * wide) / wide, at % wide);
        // The registers of A go down first: rows 0 to 7, rows 8 to 15, then the next block of columns.
        let left = number(ty, a[2 * block + row / 8][row % 8 * 4 + lane], half);
        let right = number(ty, b[block][column * 4 + lane], half);
        match (left, right) {
            (Some(left), Some(right)) => sum += left * right,
            _ => return Bits::UNDEFINED.and(0xffff_ffff),
        }
    }
    let sum = sum as f32;
    Bits::new(u64::from(if sum.is_nan() { NAN32.to_bits() } else { sum.to_bits() }))
}

/// `cvt.rna.tf32.f32`: rounds to 11 bits of precision, ties away from zero.
pub(super) fn to_tf32(raw: u64) -> u64 {
    let x = f32::from_bits(raw as u32);
    if x.is_nan() {
        return u64::from(NAN32.to_bits() & !0x1fff);
    } else if x.is_infinite() {
        return raw;
    }
    // In units of the last place. A subnormal number has the exponent of the smallest normal one.
    let exponent = (x.abs().to_bits() >> 23).max(1) as i32 - 127 - 10;
    let unit = 2f64.powi(exponent);
    let rounded = (f64::from(x) / unit).round() * unit;
    u64::from((rounded as f32).to_bits())
}
