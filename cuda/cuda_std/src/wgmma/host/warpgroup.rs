//! The multiplications that the threads of a warpgroup have started.

use core::panic::Location;
use std::collections::{BTreeMap, VecDeque};

use super::super::position::position;
use super::product::{self, ROWS};
use super::view::{View, k_of, numbers};
use super::{Call, MULTIPLY, THREADS};
use crate::simt::proxy::CHUNK;
use crate::simt::shared::BlockShared;
use crate::simt::states::State;

/// The warpgroups of a block.
#[derive(Default)]
struct Warpgroups(Vec<Warpgroup>);

impl State for Warpgroups {}

/// A multiplication that no thread has waited for.
struct Multiplication {
    call: Call,
    /// The registers of A of each thread.
    registers: Vec<[u32; 4]>,
    /// The operands' content when the first thread started it.
    was: Vec<[u8; CHUNK]>,
}

/// The matrix of pending accumulators.
struct Matrix {
    registers: usize,
    values: Vec<f32>,
    /// The number of threads that have taken their values.
    finished: u32,
}

pub(crate) struct Warpgroup {
    /// The number of multiplications that each thread has started.
    issued: Vec<u64>,
    /// The multiplications that are not complete.
    pending: VecDeque<Multiplication>,
    completed: u64,
    matrices: BTreeMap<u32, Matrix>,
}

impl Default for Warpgroup {
    fn default() -> Self {
        let issued = vec![0; THREADS as usize];
        Self { issued, pending: VecDeque::new(), completed: 0, matrices: BTreeMap::new() }
    }
}

/// Hands a warpgroup of the block to `f`.
pub(super) fn with<R>(shared: &BlockShared, number: u32, f: impl FnOnce(&mut Warpgroup) -> R) -> R {
    shared.states.with(|Warpgroups(groups)| {
        let number = number as usize;
        if groups.len() <= number {
            groups.resize_with(number + 1, Warpgroup::default);
        }
        f(&mut groups[number])
    })
}

/// Returns the number, in its warpgroup, of a thread that has started fewer than `bound` multiplications.
pub(super) fn missing(shared: &BlockShared, number: u32, bound: u64) -> Option<u32> {
    with(shared, number, |group| group.issued.iter().position(|&issued| issued < bound)).map(|at| at as u32)
}

/// Returns where a pending multiplication that reads some of these bytes was started.
pub(crate) fn reader(
    shared: &BlockShared,
    address: usize,
    bytes: usize,
) -> Option<&'static Location<'static>> {
    let lies_in = |chunk: *const u8| chunk.addr() + CHUNK > address && chunk.addr() < address + bytes;
    let reads = |view: &View| view.chunks().any(lies_in);
    shared.states.read(|Warpgroups(groups)| {
        let mut pending =
            groups.iter().flat_map(|group| &group.pending).map(|multiplication| multiplication.call);
        pending.find(|call| reads(&call.b) || call.a.as_ref().is_some_and(reads)).map(|call| call.location)
    })
}

impl Warpgroup {
    /// Takes a thread's accumulators.
    pub(super) fn start(&mut self, number: u32, thread: u32, values: &[f32]) -> Result<(), String> {
        let (registers, columns) = (values.len(), 2 * values.len());
        let matrix = self.matrices.entry(number).or_insert_with(|| Matrix {
            registers,
            values: vec![0.0; ROWS * columns],
            finished: 0,
        });
        if matrix.registers != registers {
            return Err(format!(
                "of {registers} registers, but another thread of the warpgroup started {} as its number {number}; let all \
                 threads of a warpgroup start the same accumulators in the same order",
                matrix.registers
            ));
        }
        for (i, &value) in values.iter().enumerate() {
            let (row, column) = position(thread, i);
            matrix.values[row * columns + column] = value;
        }
        Ok(())
    }

    /// Gives a thread its accumulators.
    pub(super) fn finish(&mut self, number: u32, thread: u32, values: &mut [f32]) {
        let Some(matrix) = self.matrices.get_mut(&number) else { return };
        let columns = 2 * values.len();
        for (i, value) in values.iter_mut().enumerate() {
            let (row, column) = position(thread, i);
            *value = matrix.values[row * columns + column];
        }
        matrix.finished += 1;
        if matrix.finished == THREADS {
            self.matrices.remove(&number);
        }
    }

    /// Starts a thread's multiplication number `index`. The first thread to do so checks the operands.
    pub(super) fn issue(
        &mut self,
        thread: u32,
        index: u64,
        call: Call,
        registers: Option<[u32; 4]>,
        check: impl FnOnce(&mut dyn Iterator<Item = (usize, [u8; CHUNK])>) -> Result<(), String>,
    ) -> Result<(), String> {
        let at = (index - self.completed) as usize;
        if at == self.pending.len() {
            let views = call.a.into_iter().chain([call.b]);
            // SAFETY: the views were checked, and the thread that multiplies guarantees them.
            let was: Vec<_> = views.clone().flat_map(|view| unsafe { view.read() }).collect();
            check(&mut views.flat_map(View::chunks).map(<*const u8>::addr).zip(was.iter().copied()))?;
            let registers = if registers.is_some() { vec![[0; 4]; THREADS as usize] } else { Vec::new() };
            self.pending.push_back(Multiplication { call, registers, was });
        }
        let multiplication = &mut self.pending[at];
        if multiplication.call != call {
            return Err(format!(
                "is not what another thread of the warpgroup called as its multiplication number {index}, at {}; let all 128 \
                 threads call the same multiplications with the same operands",
                multiplication.call.location
            ));
        }
        if let Some(registers) = registers {
            multiplication.registers[thread as usize] = registers;
        }
        self.issued[thread as usize] = index + 1;
        Ok(())
    }

    /// Performs the multiplications up to this number, which all threads have started.
    pub(super) fn complete(&mut self, bound: u64) -> Result<(), String> {
        while self.completed < bound {
            let Some(multiplication) = self.pending.pop_front() else { break };
            self.completed += 1;
            let call = &multiplication.call;
            let matrix = self.matrices.get_mut(&call.accumulators);
            let matrix = matrix
                .ok_or_else(|| format!("finds no accumulators of {MULTIPLY}() at {}", call.location))?;
            multiplication.complete(matrix)?;
        }
        Ok(())
    }
}

impl Multiplication {
    fn complete(&self, matrix: &mut Matrix) -> Result<(), String> {
        let Call { location, number, columns, keep, a, b, .. } = self.call;
        let views = a.into_iter().chain([b]);
        // SAFETY: the views were checked when the multiplication was started, and its threads keep the operands until now.
        let is: Vec<[u8; CHUNK]> = views.flat_map(|view| unsafe { view.read() }).collect();
        if !cfg!(miri) && is != self.was {
            return Err(format!(
                "finds that shared memory has changed which {MULTIPLY}() at {location} reads; wait for its group before any \
                 thread writes there again"
            ));
        }
        let k = k_of(number);
        let mut left = vec![0.0; ROWS * k];
        let chunks_of_a = a.map_or(0, |a| a.chunks().count());
        match a {
            Some(a) => a.decode(number, &is[..chunks_of_a], |row, at, value| left[row * k + at] = value),
            None => {
                for (thread, registers) in self.registers.iter().enumerate() {
                    decode_registers(thread, registers, number, |row, at, value| left[row * k + at] = value);
                }
            }
        }
        let mut right = vec![0.0; k * columns];
        b.decode(number, &is[chunks_of_a..], |column, at, value| right[at * columns + column] = value);
        if !keep {
            matrix.values.fill(0.0);
        }
        product::add(&left, &right, &mut matrix.values, columns);
        Ok(())
    }
}

/// Calls `f` with row, K and value of each number in a thread's registers of A (PTX ISA, "Register Fragments for
/// wgmma.mma_async").
fn decode_registers(
    thread: usize,
    registers: &[u32; 4],
    number: super::Number,
    mut f: impl FnMut(usize, usize, f32),
) {
    let in_register = k_of(number) / 8;
    for (i, register) in registers.iter().enumerate() {
        let row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
        let first = thread % 4 * in_register + i / 2 * (4 * in_register);
        numbers(number, &register.to_le_bytes(), |at, value| f(row, first + at, value));
    }
}
