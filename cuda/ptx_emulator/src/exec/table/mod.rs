//! The table of all instructions. The parser reads the syntax of its rows, the executor runs them.
//!
//! An opcode's rows are tried in order; the last one that fits the modifiers explains what is wrong with the operands.

mod copies;
mod float;
mod int;
mod matrix;
mod memory;
mod sync;

use super::row::{Flow, Row, step};
use crate::error::Cause;

const FAMILIES: [&[Row]; 7] = [
    &[UNKNOWN_ROW, RETURN_ROW],
    int::ROWS,
    float::ROWS,
    memory::ROWS,
    sync::ROWS,
    copies::ROWS,
    matrix::ROWS,
];

const LEN: usize = {
    let (mut len, mut family) = (0, 0);
    while family < FAMILIES.len() {
        len += FAMILIES[family].len();
        family += 1;
    }
    len
};

/// All rows.
pub(crate) static TABLE: [Row; LEN] = {
    let mut all = [UNKNOWN_ROW; LEN];
    let (mut len, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut at = 0;
        while at < FAMILIES[family].len() {
            all[len] = FAMILIES[family][at];
            (len, at) = (len + 1, at + 1);
        }
        family += 1;
    }
    all
};

/// The number of an instruction that is not emulated: it faults with the reason.
pub(crate) const UNKNOWN: u16 = 0;
const UNKNOWN_ROW: Row = step("", |_, i| {
    let reason = i.more().refusal.clone().unwrap_or_default();
    Err(Cause::Unsupported(reason).into())
});

/// The number of `ret`, which also ends each function.
pub(crate) const RETURN: u16 = 1;
const RETURN_ROW: Row = step("ret.?uni", |_, _| Ok(Flow::Return)).leaves();

#[cfg(test)]
mod tests {
    use crate::exec::bits::Bits;
    use crate::exec::row::Run;
    use crate::instr::{Form, Kind, Ty};

    /// Pseudo-random numbers.
    struct Lcg(u64);

    impl Lcg {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            self.0 >> 24
        }

        /// At most two undefined bits, and mostly small numbers.
        fn bits(&mut self, mask: u64) -> Bits {
            let undefined = (1 << (self.next() % 20) | 1 << (self.next() % 20)) & mask;
            let value = self.next() & if self.next().is_multiple_of(2) { 0xf } else { mask };
            if self.next().is_multiple_of(3) { Bits::new(value) } else { Bits::of(value, undefined) }
        }
    }

    /// Every value that `bits` may be.
    fn values(bits: Bits) -> Vec<u64> {
        let mut all = vec![bits.value];
        for bit in (0..64).map(|at| 1 << at).filter(|bit| bits.undefined & bit != 0) {
            all.extend(all.clone().into_iter().map(|value| value | bit));
        }
        all
    }

    /// The result of a row that only computes.
    fn evaluate(run: Run, form: &Form, operands @ [a, b, c, _]: [Bits; 4]) -> Option<Bits> {
        let result = match run {
            Run::Value(value, _) if a.undefined | b.undefined | c.undefined == 0 => {
                Bits::new(value(form, a.value, b.value, c.value))
            }
            Run::Value(value, pass) => pass.on(value, form, [a, b, c]),
            Run::Bits(bits) => bits(form, operands),
            _ => return None,
        };
        Some(result.and(u64::MAX >> (64 - form.d_bits)))
    }

    #[test]
    fn what_counts_as_known_depends_on_nothing_undefined() {
        let mut random = Lcg(7);
        let mut known = vec![0u64; super::int::ROWS.len()];
        for (round, (at, row)) in
            (0..4000).flat_map(|round| super::int::ROWS.iter().enumerate().map(move |row| (round, row)))
        {
            let is_word = ["b32", "word", "s32"].iter().any(|ty| row.syntax.contains(ty));
            let bits = if is_word || round % 2 == 0 { 32 } else { 16 };
            let ty = Ty { bits, kind: if round % 4 < 2 { Kind::Signed } else { Kind::Unsigned } };
            let from = Ty { bits: 32, kind: Kind::Signed };
            let d_bits = if row.syntax.contains("d:wide") { 2 * bits } else { bits };
            let (pick, literal) = ([random.next() as u8 & 1, random.next() as u8 & 1], random.next() & 0xff);
            let form = Form { ty, from, d_bits, pick, literal, ..Form::default() };
            let [a, b, c] = core::array::from_fn(|_| random.bits(ty.mask()));
            let e = Bits::new(random.next() % 40);
            let Some(result) = evaluate(row.run, &form, [a, b, c, e]) else { continue };
            known[at] += u64::from((!result.undefined & ty.mask()).count_ones());
            assert_eq!(result.value & result.undefined, 0, "{}: undefined bits are zeros", row.syntax);
            for x in values(a) {
                for (y, z) in values(b).into_iter().flat_map(|y| values(c).into_iter().map(move |z| (y, z))) {
                    let exact = evaluate(row.run, &form, [Bits::new(x), Bits::new(y), Bits::new(z), e]);
                    // Of a division by zero nothing is known.
                    let Some(Bits { value, undefined: 0 }) = exact else { continue };
                    let differ = (value ^ result.value) & !result.undefined;
                    assert_eq!(differ, 0, "{} {form:?} {a:x?} {b:x?} {c:x?} {e:x?}: {value:#x}", row.syntax);
                }
            }
        }
        for (row, known) in super::int::ROWS.iter().zip(known) {
            let computes = matches!(row.run, Run::Value(..) | Run::Bits(_));
            assert_eq!(known > 0, computes, "{}", row.syntax);
        }
    }
}
