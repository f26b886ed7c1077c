//! The multiplications of an OS thread, which computes its own elements.

use std::collections::{BTreeMap, VecDeque};

use super::super::{Accumulator, Number};
use super::Call;
use super::view::{k_of, numbers};
use crate::mma::exchange::shuffle;
use crate::simt::context::current;

/// The thread's two rows of A.
type Rows = [Vec<f32>; 2];

/// What the thread has started and not waited for, and its accumulators.
#[derive(Default)]
pub(super) struct Apart {
    pending: VecDeque<(Call, Option<Rows>)>,
    completed: u64,
    accumulators: BTreeMap<u32, Vec<f32>>,
}

impl Apart {
    pub fn start(&mut self, number: u32, values: &[f32]) {
        self.accumulators.insert(number, values.to_vec());
    }

    pub fn issue(&mut self, call: Call, rows: Option<Rows>) {
        self.pending.push_back((call, rows));
    }

    pub fn finish(&mut self, number: u32, values: &mut [f32]) {
        if let Some(known) = self.accumulators.remove(&number) {
            values.copy_from_slice(&known);
        }
    }

    /// Makes the multiplications up to this number.
    pub fn complete(&mut self, thread: u32, bound: u64) {
        while self.completed < bound {
            let Some((call, rows)) = self.pending.pop_front() else { break };
            self.completed += 1;
            let Some(values) = self.accumulators.get_mut(&call.accumulators) else { continue };
            // SAFETY: the thread that multiplies answers for the operands until now.
            let b = |column, k| unsafe { call.b.number(call.number, column, k) };
            for (i, value) in values.iter_mut().enumerate() {
                let (row, column) = Accumulator::<0>::position(thread, i);
                let a = |k: usize| match (&call.a, &rows) {
                    // SAFETY: as above.
                    (Some(a), _) => unsafe { a.number(call.number, row, k) },
                    (None, Some(rows)) => rows[i / 2 % 2][k],
                    (None, None) => f32::NAN,
                };
                let sum = if call.keep { *value } else { 0.0 };
                *value = (0..k_of(call.number)).fold(sum, |sum, k| sum + a(k) * b(column, k));
            }
        }
    }
}

/// The thread's rows of A, from the registers of the four lanes that share them.
#[track_caller]
pub(super) fn rows_of(name: &'static str, number: Number, [a, b, c, d]: [u32; 4]) -> Rows {
    let first = current(name, |context| context.lane()) & !3;
    let in_register = k_of(number) / 8;
    let mut rows = [vec![0.0; k_of(number)], vec![0.0; k_of(number)]];
    for other in 0..4 {
        let words = [a, b, c, d].iter().rev().fold(0, |all, &word| all << 32 | u128::from(word));
        let words = shuffle(name, words, first + other);
        for register in 0..4 {
            let at = other as usize * in_register + register / 2 * (4 * in_register);
            let word = (words >> (32 * register)) as u32;
            numbers(number, &word.to_le_bytes(), |i, value| rows[register % 2][at + i] = value);
        }
    }
    rows
}
