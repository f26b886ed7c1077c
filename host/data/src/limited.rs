//! Input with a limit on its length.

use std::io::{self, Read};

/// A reader that fails if its input continues after `limit` bytes: a short download or file can decompress to any amount of
/// data.
pub(super) struct Limited<R> {
    input: R,
    limit: u64,
    read: u64,
}

impl<R: Read> Limited<R> {
    /// Lets at most `limit` bytes of `input` through.
    pub(super) fn new(input: R, limit: u64) -> Self {
        Limited { input, limit, read: 0 }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.limit - self.read;
        if left == 0 && !buffer.is_empty() {
            return match self.input.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("it is longer than the limit of {} bytes", self.limit),
                )),
            };
        }
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let len = self.input.read(&mut buffer[..len])?;
        self.read += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_of_the_limit_passes_and_a_byte_more_does_not() {
        let read = |len: u64, limit| {
            let mut bytes = Vec::new();
            let result = Limited::new(io::repeat(7).take(len), limit).read_to_end(&mut bytes);
            result.map_err(|error| error.kind()).map(|_| bytes.len())
        };
        assert_eq!(read(10, 11), Ok(10));
        assert_eq!(read(10, 10), Ok(10));
        assert_eq!(read(10, 9), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(read(u64::MAX, 100_000), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(read(0, 0), Ok(0));
    }
}
