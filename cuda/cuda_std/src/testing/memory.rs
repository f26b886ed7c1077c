//! The buffers of a test on one device, and the kernels' arguments that point to them.

use core::fmt;
use core::marker::PhantomData;

use super::buffer::{Buffer, Ends};
use super::device::{DeviceMemory, TestDevice};
use super::element::Element;
use super::error::TestError;
use super::guard::Where;
use super::{Input, Output};
use crate::launch::{PtrArg, PtrMutArg, Residence, SliceArg, SliceMutArg};

/// The buffers of one run, in the memory of its device.
pub struct Memory<'a> {
    places: Vec<Place<'a>>,
    ends: Ends,
}

struct Place<'a> {
    memory: Box<dyn DeviceMemory>,
    buffer: &'a Buffer,
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places.iter().map(|place| &place.buffer.name)).finish()
    }
}

/// An input as a kernel's argument: for `&[T]`, `*const [T]`, `&T` or `*const T`.
#[derive(Clone, Copy, Debug)]
pub struct InputArg<'a, T> {
    pointer: *const T,
    len: usize,
    residence: Residence,
    memory: PhantomData<&'a T>,
}

/// An output as a kernel's argument: for `*mut T` or `*mut [T]`. A later kernel may read it like an input.
#[derive(Clone, Copy, Debug)]
pub struct OutputArg<'a, T> {
    input: InputArg<'a, T>,
}

impl<'a> Memory<'a> {
    /// Creates fresh copies of the buffers on `device`, for this run.
    pub(super) fn new(
        buffers: &'a [Buffer],
        run: Where<'_>,
        device: &dyn TestDevice,
        ends: Ends,
    ) -> Result<Self, TestError> {
        let place = |buffer: &'a Buffer| {
            let memory = device.upload(&buffer.guarded(ends)).map_err(failed("uploading", run, buffer))?;
            if cfg!(miri) && buffer.unwritten.is_some() {
                for row in buffer.rows() {
                    let nothing = Box::<[u8]>::new_uninit_slice(row.len());
                    let to = memory.pointer().wrapping_add(row.start).cast();
                    // SAFETY: bytes of the memory, which is on the host: Miri has no other.
                    unsafe { nothing.as_ptr().copy_to_nonoverlapping(to, row.len()) };
                }
            }
            Ok(Place { memory, buffer })
        };
        Ok(Memory { places: buffers.iter().map(place).collect::<Result<_, TestError>>()?, ends })
    }

    /// Reads the buffers, with their guards.
    pub(super) fn read(&self, run: Where<'_>) -> Result<Vec<Vec<u8>>, TestError> {
        let read = |Place { memory, buffer }: &Place<'_>| {
            let mut bytes = buffer.guarded(self.ends);
            memory.download(&mut bytes).map_err(failed("reading", run, buffer))?;
            Ok(bytes)
        };
        self.places.iter().map(read).collect()
    }

    /// Returns a pointer to the first byte of each buffer's memory, which is in its guard.
    pub(super) fn first_bytes(&self) -> impl Iterator<Item = *mut u8> {
        self.places.iter().map(|place| place.memory.pointer())
    }

    /// Returns the input as an argument for this memory: from its first row to the end of the last.
    ///
    /// # Panics
    /// If the handle is from another test with more buffers.
    pub fn input<T: Element>(&self, input: Input<T>) -> InputArg<'_, T> {
        self.arg(input.buffer)
    }

    /// Returns the output as an argument for this memory: from its first row to the end of the last.
    ///
    /// # Panics
    /// If the handle is from another test with more buffers.
    pub fn output<T: Element>(&self, output: Output<T>) -> OutputArg<'_, T> {
        OutputArg { input: self.arg(output.buffer) }
    }

    fn arg<T: Element>(&self, buffer: usize) -> InputArg<'_, T> {
        let Place { memory, buffer } = &self.places[buffer];
        InputArg {
            pointer: memory.pointer().wrapping_add(buffer.first()).cast_const().cast(),
            len: buffer.layout.span(),
            residence: memory.residence(),
            memory: PhantomData,
        }
    }
}

// SAFETY: the pointer is aligned, and the memory has its elements and lives as long as the argument. Every byte was
// uploaded, and every bit pattern is an element. Writing them meanwhile takes an unsafe launch.
unsafe impl<T: Element> SliceArg<T> for InputArg<'_, T> {
    fn as_raw_slice(&self) -> (*const T, usize) {
        (self.pointer, self.len)
    }
    fn residence(&self) -> Residence {
        self.residence
    }
}

// SAFETY: the memory has its elements and lives as long as the argument.
unsafe impl<T: Element> PtrArg<T> for InputArg<'_, T> {
    fn as_raw_ptr(&self) -> *const T {
        self.pointer
    }
    fn residence(&self) -> Residence {
        self.residence
    }
    fn byte_len(&self) -> Option<usize> {
        Some(self.len * size_of::<T>())
    }
}

// SAFETY: the memory has its elements and lives as long as the argument.
unsafe impl<T: Element> SliceArg<T> for OutputArg<'_, T> {
    fn as_raw_slice(&self) -> (*const T, usize) {
        self.input.as_raw_slice()
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
}

// SAFETY: the memory has its elements and lives as long as the argument.
unsafe impl<T: Element> PtrArg<T> for OutputArg<'_, T> {
    fn as_raw_ptr(&self) -> *const T {
        self.input.pointer
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.input.byte_len()
    }
}

// SAFETY: the memory has its elements, lives as long as the argument, is writable, and belongs only to this run.
unsafe impl<T: Element> SliceMutArg<T> for OutputArg<'_, T> {
    fn as_raw_mut_slice(&mut self) -> (*mut T, usize) {
        (self.input.pointer.cast_mut(), self.input.len)
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
}

// SAFETY: the memory has its elements, lives as long as the argument, is writable and belongs only to this run.
unsafe impl<T: Element> PtrMutArg<T> for OutputArg<'_, T> {
    fn as_raw_mut_ptr(&mut self) -> *mut T {
        self.input.pointer.cast_mut()
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.input.byte_len()
    }
}

fn failed<'a>(
    what: &'static str,
    run: Where<'a>,
    buffer: &'a Buffer,
) -> impl FnOnce(Box<dyn core::error::Error + Send + Sync>) -> TestError + 'a {
    move |source| TestError::Device { run: run.name(), what, buffer: buffer.name.clone(), source }
}
