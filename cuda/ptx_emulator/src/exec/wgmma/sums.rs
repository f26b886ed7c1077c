//! Accumulators: in registers before and after a multiplication, apart while it is pending.

use super::group::Sums;
use super::product::depth;
use crate::error::Cause;
use crate::exec::bits::Bits;
use crate::exec::block::{Block, Failed};
use crate::exec::number::bits_of;
use crate::exec::shared::Shared;
use crate::exec::watch::Token;
use crate::instr::{Instr, Slot, WARPGROUP};

/// Row and column of accumulator `index` of a thread of the warpgroup.
pub(crate) fn position(thread: usize, index: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + if index % 4 < 2 { 0 } else { 8 };
    (row, 8 * (index / 4) + lane % 4 * 2 + index % 2)
}

impl Block<'_> {
    /// The number of a multiplication's accumulators: those of pending multiplications before it, or new ones with the
    /// contents of the registers.
    pub(crate) fn accumulators(
        &mut self,
        first: usize,
        i: &Instr,
        (keeps, line): (bool, u32),
        shared: &mut Shared,
    ) -> Result<u32, Failed> {
        let (d, k) = (&i.more().d, depth(i.form.from));
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
                Some(known) if known.k == k && known.slots.len() == d.len() => Ok(sums),
                _ => Err((first, self.other_accumulators(d[0], line, first))),
            };
        }
        let warpgroup = &mut self.warpgroups[first / WARPGROUP];
        let number = warpgroup.next & 0x7f_ffff;
        warpgroup.next += 1;
        let sums = self.start_sums(first, k, d, (keeps, line, number), shared)?;
        self.warpgroups[first / WARPGROUP].sums.push(sums);
        Ok(number)
    }

    fn start_sums(
        &mut self,
        first: usize,
        k: usize,
        d: &[Slot],
        (keeps, line, number): (bool, u32, u32),
        shared: &mut Shared,
    ) -> Result<Sums, Failed> {
        let (depth, n) = (self.threads[first].frames.len() - 1, 2 * d.len());
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
                    return Err((at, super::unfenced(&cx, slot, "accessed")));
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
        Ok(Sums { number, pending: 0, slots: d.to_vec(), depth, line, k, values, is_undefined })
    }

    /// Writes accumulators to their registers, which hold the tokens.
    pub(crate) fn write_back(&mut self, first: usize, sums: &Sums) -> Result<(), Failed> {
        let n = 2 * sums.slots.len();
        for at in first..first + WARPGROUP {
            for (index, &slot) in sums.slots.iter().enumerate() {
                let (row, column) = position(at - first, index);
                let bits = if sums.is_undefined[row * n + column] {
                    Bits::UNDEFINED.and(0xffff_ffff)
                } else {
                    Bits::new(bits_of(sums.values[row * n + column]))
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
        let register = &self.grid.module.functions[self.place(at).0].registers[slot as usize];
        Cause::Wgmma(format!(
            "register {register} is among the accumulators, and the pending wgmma of PTX line {line} has others or another shape; \
             wait for its group first"
        ))
        .into()
    }
}
