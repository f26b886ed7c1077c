//! Matrix instructions of a warp (PTX ISA, "Matrix Multiply-Accumulate Operation using mma instruction").
//!
//! A matrix is gathered from the registers of the lanes. An element of the product is the exact sum, rounded once: the ISA
//! leaves order and precision open. Undefined bits in a row of A, a column of B or an element of C make the element of the
//! product undefined. An error belongs to the last lane whose context was used.

use super::bits::Bits;
use super::grid::Exec;
use super::number::{bits_of, number, used};
use super::row::WithLane;
use super::space::{Access, Place};
use crate::instr::{Instr, Slot, Ty, WARP, flag};

/// A register's content, by lane.
type Row = [Bits; WARP];
/// 8 x 8 numbers of 16 bits.
type Matrix = [[Bits; 8]; 8];

/// The k of a multiplication: a lane has one 32nd of the 16 rows of A, with one or two numbers a register.
pub(crate) fn depth(i: &Instr) -> u64 {
    2 * i.more().a.len() as u64 * u64::from(32 / i.form.from.bits)
}

/// `mma`.
pub(crate) fn multiply(i: &Instr, lanes: &mut WithLane<'_>) -> Exec {
    let (more, k) = (i.more(), depth(i) as usize);
    let (a, b, c) = (gather(lanes, &more.a)?, gather(lanes, &more.b)?, gather(lanes, &more.c)?);
    scatter(lanes, &more.d, |lane, element| {
        let place = (lane / 4 + if element < 2 { 0 } else { 8 }, lane % 4 * 2 + (element & 1));
        product(i.form.from, k, [&a, &b, &c], place).unwrap_or(Bits::UNDEFINED.and(0xffff_ffff))
    })
}

/// One element of D; `None` if it is undefined.
fn product(ty: Ty, k: usize, [a, b, c]: [&[Row]; 3], (row, column): (usize, usize)) -> Option<Bits> {
    let number = |bits: Bits, half: usize| {
        let bits = bits.map(|raw| raw >> (16 * half));
        (bits.undefined & used(ty) == 0).then(|| number(ty, bits.value))
    };
    // Columns of A, and rows of B, per register of a lane; four lanes hold those of a block.
    let wide = (32 / ty.bits) as usize;
    let addend = c[(row / 8) * 2 + column % 2][row % 8 * 4 + column / 2];
    let mut sum = (addend.undefined == 0).then(|| f64::from(f32::from_bits(addend.value as u32)))?;
    for at in 0..k {
        let (block, lane, half) = (at / (4 * wide), at % (4 * wide) / wide, at % wide);
        // The registers of A go down first: rows 0 to 7, rows 8 to 15, then the next block of columns.
        let left = number(a[2 * block + row / 8][row % 8 * 4 + lane], half)?;
        sum += left * number(b[block][column * 4 + lane], half)?;
    }
    Some(Bits::new(bits_of(sum as f32)))
}

/// `movmatrix`.
pub(crate) fn transpose(i: &Instr, lanes: &mut WithLane<'_>) -> Exec {
    let matrix = matrix_of(&gather(lanes, &[i.a])?[0]);
    scatter(lanes, &[i.d], |lane, _| pair(&matrix, lane, true))
}

/// `ldmatrix`, one matrix per register.
pub(crate) fn load(i: &Instr, lanes: &mut WithLane<'_>) -> Exec {
    let (at, d) = (&i.more().at[0], &i.more().d);
    let mut matrices = vec![[[Bits::new(0); 8]; 8]; d.len()];
    for row in 0..8 * d.len() {
        lanes(row, &mut |cx| {
            let place = cx.place(at, 16, Access::Load)?;
            let numbers: [Bits; 8] = core::array::from_fn(|i| cx.load(place.plus(2 * i as u64), 2));
            if numbers.iter().any(|bits| bits.undefined != 0) {
                let address = cx.address(at)?;
                cx.note(at.space.name(), address);
            }
            matrices[row / 8][row % 8] = numbers;
            Ok(())
        })?;
    }
    scatter(lanes, d, |lane, element| pair(&matrices[element], lane, i.form.has(flag::TRANS)))
}

/// `stmatrix`.
pub(crate) fn store(i: &Instr, lanes: &mut WithLane<'_>) -> Exec {
    let (at, trans) = (&i.more().at[0], i.form.has(flag::TRANS));
    let values = gather(lanes, &i.more().a)?;
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
                let value = if trans { column[row % 8] } else { matrix[row % 8][i] };
                cx.store(place.plus(2 * i as u64), 2, value);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The contents of these registers in all lanes.
fn gather(lanes: &mut WithLane<'_>, slots: &[Slot]) -> Exec<Vec<Row>> {
    let mut all = vec![[Bits::new(0); WARP]; slots.len()];
    for lane in 0..WARP {
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
    for lane in 0..WARP {
        lanes(lane, &mut |cx| {
            slots.iter().enumerate().for_each(|(i, &slot)| cx.frame.set_bits(slot, of(lane, i)));
            Ok(())
        })?;
    }
    Ok(())
}

/// The matrix in the lanes' registers; each register holds two neighbours of a row.
fn matrix_of(registers: &Row) -> Matrix {
    core::array::from_fn(|row| {
        core::array::from_fn(|column| {
            registers[row * 4 + column / 2].map(|raw| raw >> (16 * (column % 2)) & 0xffff)
        })
    })
}

/// A lane's register of a matrix.
fn pair(matrix: &Matrix, lane: usize, trans: bool) -> Bits {
    let (row, column) = (lane / 4, lane % 4 * 2);
    let at = |row: usize, column: usize| if trans { matrix[column][row] } else { matrix[row][column] };
    at(row, column).or(at(row, column + 1).map(|raw| raw << 16))
}
