//! Writing an output piece by piece.

/// Where the next piece goes; what is too much is left out.
pub struct Out<'a> {
    rest: &'a mut [u8],
}

#[allow(dead_code, reason = "which are used depends on the features")]
impl<'a> Out<'a> {
    /// An output that starts at the start of `all`, and of which nothing is written yet.
    pub fn new(all: &'a mut [u8]) -> Out<'a> {
        all.fill(0);
        Out { rest: all }
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.rest.len());
        let (to, rest) = core::mem::take(&mut self.rest).split_at_mut(count);
        to.copy_from_slice(&bytes[..count]);
        self.rest = rest;
    }

    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Appends the bits of a number, of any NaN the same.
    pub fn float(&mut self, number: f64) {
        self.number(if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() });
    }

    /// Appends the bits of a number, of any NaN the same.
    pub fn single(&mut self, number: f32) {
        let bits = if number.is_nan() { f32::NAN.to_bits() } else { number.to_bits() };
        self.bytes(&bits.to_le_bytes());
    }
}

/// The `N` bytes of `input` from `at` on.
#[allow(dead_code, reason = "which are used depends on the features")]
pub fn array<const N: usize>(input: &[u8], at: usize) -> [u8; N] {
    let mut all = [0; N];
    all.copy_from_slice(&input[at..at + N]);
    all
}

/// The pieces of `input` that a hash is given one after the other: their lengths depend on `number`.
#[allow(dead_code, reason = "which are used depends on the features")]
pub fn pieces(input: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    let mut length = number as usize;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        length = (length * 5 + 3) % 71;
        let (piece, tail) = rest.split_at(length.min(rest.len()));
        rest = tail;
        Some(piece)
    })
}
