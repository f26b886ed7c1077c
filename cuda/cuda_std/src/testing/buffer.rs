//! A buffer of a test as bytes, with its guards.

use core::iter;
use core::ops::Range;

use super::Layout;
use super::element::{self, Element};
use super::tolerance::{Difference, Tolerance};

/// The bytes before every buffer that must not change: a page, so a multiple of every alignment that kernels require.
/// After a buffer come 256 or more, up to the end of a page. Miri knows where memory ends, so it gets none.
pub(super) const GUARD: usize = if cfg!(miri) { 0 } else { 4096 };
/// The least number of bytes after a buffer.
const LEAST: usize = if cfg!(miri) { 0 } else { 256 };
/// The bytes around outputs: as a float of 32 or 64 bits, a number that no kernel computes.
const FILLER: u8 = 0xa5;
/// The bytes around inputs and in an unwritten output: as a float, a NaN that no arithmetic produces and that spreads
/// into the results of a reader.
pub(super) const NAN: u8 = 0xff;

/// What lies after an input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// A guard, as after an output: the CPU reports the thread that accesses it.
    Guarded,
    /// Nothing: on a device a tool such as compute-sanitizer reports the thread.
    Exact,
}

/// What a buffer is for.
pub(super) enum Role {
    /// It must stay as it is.
    Input,
    /// It is compared.
    Output(Box<Compared>),
    /// It is not compared.
    Scratch,
}

/// How an output is compared.
pub(super) struct Compared {
    pub tolerance: Tolerance,
    /// The elements' bytes.
    pub expected: Option<Vec<u8>>,
    pub difference: fn(&[u8], &[u8], &Tolerance) -> Option<Difference>,
}

/// Finds the first element that no kernel has written, in the elements' bytes.
pub(super) type FirstUnwritten = fn(&[u8]) -> Option<usize>;

/// A buffer of a test.
pub(super) struct Buffer {
    pub name: String,
    /// The elements' bytes before the launch, row after row.
    pub initial: Vec<u8>,
    /// Bytes of an element.
    pub element: usize,
    pub layout: Layout,
    pub role: Role,
    /// For a buffer that kernels must write completely.
    pub unwritten: Option<FirstUnwritten>,
}

impl Buffer {
    pub fn new<T: Element>(name: &str, elements: &[T], layout: Layout, role: Role) -> Self {
        let (name, initial, element) = (name.to_owned(), element::to_bytes(elements), size_of::<T>());
        Self { name, initial, element, layout, role, unwritten: None }
    }

    /// Returns the byte of the memory at which the first row starts.
    pub fn first(&self) -> usize {
        GUARD + self.layout.offset * self.element
    }

    /// Returns the byte of the memory after the last row.
    fn end(&self) -> usize {
        self.first() + self.layout.span() * self.element
    }

    /// Returns the buffer's bytes with the bytes around them.
    pub fn guarded(&self, ends: Ends) -> Vec<u8> {
        let is_input = matches!(self.role, Role::Input);
        let end = self.end();
        let len =
            if is_input && ends == Ends::Exact { end } else { (end + LEAST).next_multiple_of(GUARD.max(1)) };
        let mut bytes = vec![if is_input { NAN } else { FILLER }; len];
        let rows = self.initial.chunks((self.layout.cols * self.element).max(1));
        self.rows().zip(rows).for_each(|(place, row)| bytes[place].copy_from_slice(row));
        bytes
    }

    /// Returns the rows in the memory, one after the other.
    pub fn packed(&self, memory: &[u8]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.initial.len());
        self.rows().for_each(|place| packed.extend_from_slice(&memory[place]));
        packed
    }

    /// Returns where the rows lie in the memory.
    pub fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        self.layout.rows_in_bytes(self.element).map(|row| GUARD + row.start..GUARD + row.end)
    }

    /// Returns the ranges around the rows in a memory of `len` bytes: before the first, between them, after the last.
    pub fn around(&self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let between = self.rows().zip(self.rows().skip(1)).map(|(row, next)| row.end..next.start);
        iter::once(0..self.first()).chain(between).chain(iter::once(self.end()..len))
    }
}
