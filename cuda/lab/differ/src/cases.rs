//! Cases: a kernel's input, and the host's output for it.

use anyhow::{Context, ensure};

use crate::difference::{Difference, What};
pub use crate::place::Place;
use crate::record;

/// One case of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The kernel's name.
    pub kernel: String,
    /// A number with a meaning for the kernel.
    pub number: u32,
    /// The input bytes.
    pub input: Vec<u8>,
    /// The expected output bytes.
    pub output: Vec<u8>,
}

impl Case {
    /// The difference of this case.
    pub fn differs(&self, what: What) -> Difference {
        let Case { kernel, number, input, .. } = self;
        Difference { kernel: kernel.clone(), number: *number, input_len: input.len(), what }
    }
}

/// The value of output bytes before a kernel runs, and of memory that may hold leftovers of other kernels.
pub const SOILED: u8 = 0xab;

/// Reads the cases that a native program wrote.
///
/// # Errors
/// The bytes end within a case, or a name is not valid text.
pub fn read(bytes: &[u8]) -> anyhow::Result<Vec<Case>> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let mut next = || piece(&mut rest).context("the file of cases ends within a case");
        let (kernel, number, input, output) = (next()?, next()?, next()?, next()?);
        let kernel = String::from_utf8(kernel.to_vec()).context("a kernel's name is no text")?;
        let number = u32::from_le_bytes(number.try_into().context("a case's number has not four bytes")?);
        all.push(Case { kernel, number, input: input.to_vec(), output: output.to_vec() });
    }
    ensure!(!all.is_empty(), "the file of cases is empty");
    Ok(all)
}

/// Splits off bytes that follow their length.
fn piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    let (piece, tail) = tail.split_at_checked(length as usize)?;
    *rest = tail;
    Some(piece)
}

/// Writes cases for [`read`].
pub fn write(cases: &[Case]) -> Vec<u8> {
    let mut all = Vec::new();
    for case in cases {
        record::write(&mut all, &case.kernel, case.number, &case.input, &case.output);
    }
    all
}

/// Several cases as arguments of a launch: places, inputs, and soiled outputs.
#[derive(Clone, Debug)]
pub struct Packed {
    /// One per case.
    pub places: Vec<Place>,
    /// All inputs.
    pub inputs: Vec<u8>,
    /// All outputs.
    pub outputs: Vec<u8>,
}

/// Concatenates the cases of one launch.
pub fn pack<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Packed {
    let mut packed = Packed { places: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
    for case in cases {
        packed.places.push(Place {
            input_at: packed.inputs.len() as u32,
            input_len: case.input.len() as u32,
            number: case.number,
            output_at: packed.outputs.len() as u32,
            output_len: case.output.len() as u32,
        });
        packed.inputs.extend_from_slice(&case.input);
        packed.outputs.resize(packed.outputs.len() + case.output.len(), SOILED);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_native_programs_write_is_read() {
        let mut bytes = Vec::new();
        record::write(&mut bytes, "a", 7, &[1, 2], &[]);
        record::write(&mut bytes, "a", 8, &[], &[3]);
        record::write(&mut bytes, "b", 0, &[4], &[5, 6]);
        let cases = read(&bytes).unwrap();
        let first = Case { kernel: "a".to_owned(), number: 7, input: vec![1, 2], output: Vec::new() };
        assert_eq!((cases.len(), &cases[0]), (3, &first));
        assert_eq!(write(&cases), bytes);
        let packed = pack(&cases);
        assert_eq!((packed.inputs, packed.outputs), (vec![1, 2, 4], vec![SOILED; 3]));
        assert_eq!(
            (packed.places[2].input_at, packed.places[2].output_at, packed.places[1].number),
            (2, 1, 8)
        );
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert!(read(&[]).is_err());
    }
}
