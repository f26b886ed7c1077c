//! Accumulators: in registers before and after a multiplication, here while it is pending.

use super::super::block::{Block, Failed};
use super::super::cluster::Shared;
use super::super::float::NAN32;
use super::super::undefined::Bits;
use super::super::watch::Token;
use super::unfenced;
use crate::error::Cause;
use crate::instr::{Multiply, Slot, WARPGROUP, WgmmaTy};

/// The accumulators of one or more multiplications, 64 rows of `n`.
#[derive(Debug)]
pub(super) struct Sums {
    pub number: u32,
    /// Pending multiplications.
    pub pending: usize,
    /// The registers of each thread, and the depth of their frame.
    slots: Vec<Slot>,
    depth: usize,
    line: u32,
    k: usize,
    /// By row; only valid where defined.
    pub values: Vec<f32>,
    pub is_undefined: Vec<bool>,
}

/// Row and column of accumulator `index` of a thread of the warpgroup.
pub(super) fn position(thread: usize, index: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + if index % 4 < 2 { 0 } else { 8 };
    (row, 8 * (index / 4) + lane % 4 * 2 + index % 2)
}

impl Block<'_> {
    /// The number of a multiplication's accumulators: those of pending multiplications before it, or new ones with the
    /// contents of the registers.
    pub(super) fn accumulators(
        &mut self,
        first: usize,
        multiply: &Multiply,
        (keeps, line): (bool, u32),
        shared: &mut Shared,
    ) -> Result<u32, Failed> {
        let Multiply { ty, n, d, .. } = multiply;
        let depth = self.threads[first].frames.len() - 1;
        let token = |at: usize, slot: Slot| Token::of(self.threads[at].frames[depth].raw(slot));
        if let Some(Token { sums, line, .. }) = token(first, d[0]) {
            let expected = |index: usize| Some(Token { line, sums, index: index as u32 });
            for at in first..first + WARPGROUP {
                let wrong = d.iter().enumerate().find(|&(index, &slot)| token(at, slot) != expected(index));
                if let Some((_, &slot)) = wrong {
                    return Err((at, self.other_accumulators(slot, line, at)));
                }
            }
            let known = self.warpgroups[first / WARPGROUP].sums.iter().find(|other| other.number == sums);
            return match known {
                Some(known) if known.k == ty.k() && known.slots.len() == n / 2 => Ok(sums),
                _ => Err((first, self.other_accumulators(d[0], line, first))),
            };
        }
        let warpgroup = &mut self.warpgroups[first / WARPGROUP];
        let number = warpgroup.next & 0x7f_ffff;
        warpgroup.next += 1;
        let sums = self.start_sums(first, (*ty, *n), d, (keeps, line, number), shared)?;
        self.warpgroups[first / WARPGROUP].sums.push(sums);
        Ok(number)
    }

    fn start_sums(
        &mut self,
        first: usize,
        (ty, n): (WgmmaTy, usize),
        d: &[Slot],
        (keeps, line, number): (bool, u32, u32),
        shared: &mut Shared,
    ) -> Result<Sums, Failed> {
        let depth = self.threads[first].frames.len() - 1;
        let (mut values, mut is_undefined) = (vec![0f32; 64 * n], vec![false; 64 * n]);
        for at in first..first + WARPGROUP {
            let cx = self.cx(at, shared).ok_or_else(|| (at, super::ended()))?;
            for (index, &slot) in d.iter().enumerate() {
                let raw = cx.frame.raw(slot);
                if let Some(token) = Token::of(raw) {
                    let line = token.line;
                    return Err((at, self.other_accumulators(slot, line, at)));
                }
                if let Some(watch) = &cx.frame.watch
                    && !watch.is_fenced(slot)
                {
                    return Err((at, unfenced(cx.frame, slot, &cx, "accessed").into()));
                }
                if keeps {
                    if raw == Bits::UNWRITTEN {
                        cx.bits(slot);
                        cx.check_accesses().map_err(|cause| (at, cause))?;
                    }
                    let (row, column) = position(at - first, index);
                    values[row * n + column] = f32::from_bits(raw.value as u32);
                    is_undefined[row * n + column] = raw.undefined & 0xffff_ffff != 0;
                }
                let token = Token { line, sums: number, index: index as u32 };
                cx.frame.set_raw(slot, token.bits());
            }
        }
        let (slots, k) = (d.to_vec(), ty.k());
        Ok(Sums { number, pending: 0, slots, depth, line, k, values, is_undefined })
    }

    /// Writes accumulators to their registers, which hold the tokens.
    pub(super) fn write_back(&mut self, first: usize, sums: &Sums) -> Result<(), Failed> {
        let n = 2 * sums.slots.len();
        for at in first..first + WARPGROUP {
            for (index, &slot) in sums.slots.iter().enumerate() {
                let (row, column) = position(at - first, index);
                let bits = if sums.is_undefined[row * n + column] {
                    Bits::UNDEFINED.and(0xffff_ffff)
                } else {
                    let value = sums.values[row * n + column];
                    Bits::new(u64::from(if value.is_nan() { NAN32.to_bits() } else { value.to_bits() }))
                };
                let token = Token { line: sums.line, sums: sums.number, index: index as u32 };
                let frame = self.threads[at].frames.get_mut(sums.depth);
                match frame.filter(|frame| frame.raw(slot) == token.bits()) {
                    Some(frame) => frame.set_raw(slot, bits),
                    None => {
                        let reason = format!(
                            "an accumulator of the wgmma of PTX line {} is gone before its group is waited for",
                            sums.line
                        );
                        return Err((at, Cause::Wgmma(reason).into()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The fault of a register that is an accumulator of a pending multiplication with other registers, or of another shape.
    fn other_accumulators(&self, slot: Slot, line: u32, at: usize) -> Box<Cause> {
        let (function, _) = self.place(at);
        let register = &self.grid.module.functions[function].registers[slot as usize];
        Cause::Wgmma(format!(
            "register {register} is among the accumulators, and the pending wgmma of PTX line {line} has others or another shape; \
             wait for its group first"
        ))
        .into()
    }
}
