//! The buffers of a test on one device, and the kernels' arguments that point there.

use core::fmt;
use core::marker::PhantomData;

use super::device::{DeviceMemory, TestDevice};
use super::element::Element;
use super::error::{Run, TestError};
use super::{Buffer, Input, Output, Role};
use crate::launch::{LaunchError, Launcher, PtrArg, PtrMutArg, Residence, SliceArg, SliceMutArg};

/// Bytes before and after every buffer that must stay: a multiple of every alignment that kernels ask for.
const GUARD: usize = 256;
/// What they hold.
const FILLER: u8 = 0xa5;

/// What each buffer holds, in bytes.
pub(super) type Contents = Vec<Vec<u8>>;

/// The buffers of one run, in the memory of its device.
pub struct Memory<'a> {
    places: Vec<Place<'a>>,
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

/// An output as a kernel's argument: for `*mut T` or `*mut [T]`, or to read what a kernel before has written for those of an input.
#[derive(Clone, Copy, Debug)]
pub struct OutputArg<'a, T> {
    input: InputArg<'a, T>,
}

impl Memory<'_> {
    /// The input, for the launch on this memory.
    ///
    /// # Panics
    /// The handle is of another test with more buffers.
    pub fn input<T: Element>(&self, input: Input<T>) -> InputArg<'_, T> {
        self.arg(input.buffer)
    }

    /// The output, for the launch on this memory.
    ///
    /// # Panics
    /// The handle is of another test with more buffers.
    pub fn output<T: Element>(&self, output: Output<T>) -> OutputArg<'_, T> {
        OutputArg { input: self.arg(output.buffer) }
    }

    fn arg<T: Element>(&self, buffer: usize) -> InputArg<'_, T> {
        let Place { memory, buffer } = &self.places[buffer];
        InputArg {
            pointer: memory.pointer().wrapping_add(GUARD).cast_const().cast(),
            len: buffer.initial.len() / size_of::<T>(),
            residence: memory.residence(),
            memory: PhantomData,
        }
    }
}

// SAFETY: the pointer is aligned, and the memory has its elements and lives as long as the argument. Every byte was
// uploaded, and any bits are an element. A launch that writes them meanwhile is unsafe, and its caller answers for it.
unsafe impl<T: Element> SliceArg<T> for InputArg<'_, T> {
    fn as_raw_slice(&self) -> (*const T, usize) {
        (self.pointer, self.len)
    }
    fn residence(&self) -> Residence {
        self.residence
    }
}

// SAFETY: as above.
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

// SAFETY: as above.
unsafe impl<T: Element> SliceArg<T> for OutputArg<'_, T> {
    fn as_raw_slice(&self) -> (*const T, usize) {
        self.input.as_raw_slice()
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
}

// SAFETY: as above.
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

// SAFETY: as above; the memory is for writing too, and belongs to this run alone.
unsafe impl<T: Element> SliceMutArg<T> for OutputArg<'_, T> {
    fn as_raw_mut_slice(&mut self) -> (*mut T, usize) {
        (self.input.pointer.cast_mut(), self.input.len)
    }
    fn residence(&self) -> Residence {
        self.input.residence
    }
}

// SAFETY: as above.
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

/// Runs `launch` on fresh copies of the buffers on `device`, and gives what they hold then.
pub(super) fn run(
    buffers: &[Buffer],
    run: &Run,
    device: &dyn TestDevice,
    launch: &dyn Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
) -> Result<Contents, TestError> {
    let failed = |what, buffer: &Buffer| {
        let (run, buffer) = (run.clone(), buffer.name.clone());
        move |source| TestError::Device { run, what, buffer, source }
    };
    let place = |buffer| {
        Ok(Place { memory: device.upload(&guarded(buffer)).map_err(failed("uploading", buffer))?, buffer })
    };
    let memory = Memory { places: buffers.iter().map(place).collect::<Result<_, TestError>>()? };
    launch(device, &memory).map_err(|source| TestError::Launch { run: run.clone(), source })?;
    let read = |place: &Place<'_>| {
        let mut bytes = vec![0; place.buffer.initial.len() + 2 * GUARD];
        place.memory.download(&mut bytes).map_err(failed("reading", place.buffer))?;
        checked(place.buffer, run, bytes)
    };
    memory.places.iter().map(read).collect()
}

fn guarded(buffer: &Buffer) -> Vec<u8> {
    let guard = [FILLER; GUARD];
    [&guard[..], &buffer.initial, &guard[..]].concat()
}

/// What the buffer holds, of `bytes` with the guards around it.
fn checked(buffer: &Buffer, run: &Run, bytes: Vec<u8>) -> Result<Vec<u8>, TestError> {
    let (run, len) = (run.clone(), buffer.initial.len());
    let is_guard = |at: usize| !(GUARD..GUARD + len).contains(&at);
    if let Some(at) = (0..bytes.len()).find(|&at| is_guard(at) && bytes[at] != FILLER) {
        let byte = at as isize - GUARD as isize;
        return Err(TestError::OutOfBounds { buffer: buffer.name.clone(), run, byte, len });
    }
    let contents = bytes[GUARD..GUARD + len].to_vec();
    let changed = contents.iter().zip(&buffer.initial).position(|(now, before)| now != before);
    match (&buffer.role, changed) {
        (Role::Input, Some(byte)) => Err(TestError::InputChanged { buffer: buffer.name.clone(), run, byte }),
        _ => Ok(contents),
    }
}
