//! A trial's problem: arrays, launches, and an oracle.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytemuck::Pod;
use cuda_std::launch::{KernelMeta, LaunchConfig, LaunchError, Launcher, RawBuffer};
use cuda_std::testing::{Element, KernelTest, Layout, Memory, Results};
use ferrowarp::device::{Device, DeviceError};
use gpu_kernels::gallery::Rung;
use rayon::prelude::*;

use super::numbers::elements;
use crate::case::wide;
use crate::compare::{Bound, Expected, Outputs, compare};

/// The number of compared elements of a larger output: 64 runs of 64 neighbours, from the first element to the last.
const CHECKED: usize = PLACES * PLACES;
const PLACES: usize = 64;

/// The bytes of an output before it is written: not a float that a kernel computes.
const UNWRITTEN: u8 = 0xff;

/// The arrays of a problem, in the order in which they are added.
#[derive(Default)]
pub struct Arrays {
    arrays: Vec<Box<dyn AnyArray>>,
}

/// An element of an array.
pub trait Word: Element + Pod + Send + Sync {}

impl<T: Element + Pod + Send + Sync> Word for T {}

/// One array.
pub struct Array<T> {
    name: &'static str,
    elements: Arc<Vec<T>>,
    role: Role,
}

/// The role of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is read and must not change.
    Input,
    /// It is written completely.
    Written,
    /// It is changed in some places.
    Changed,
    /// Its content is not checked.
    Scratch,
}

/// Refers to an array of a problem.
#[derive(Debug)]
pub struct Handle<T> {
    index: usize,
    elements: PhantomData<T>,
}

// Implemented manually, because a handle can be copied whatever its elements are.
impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}

/// The arrays on a device.
pub struct Placed {
    raw: Vec<RawBuffer<u8>>,
    device: Device,
}

impl Placed {
    /// The array, as kernels take it.
    pub fn of<T>(&self, handle: Handle<T>) -> RawBuffer<T> {
        self.raw[handle.index].cast()
    }

    /// The grid of `config`, limited to the blocks that the device runs at once and to `most`.
    ///
    /// # Errors
    /// The device does not have the kernel.
    pub fn resident(
        &self,
        kernel: &'static KernelMeta,
        config: LaunchConfig,
        most: u32,
    ) -> Result<LaunchConfig, LaunchError> {
        let fit = self.device.resident_blocks(kernel, &config);
        let fit = fit.map_err(|error| LaunchError::Device(Box::new(error)))?;
        let fit = u32::try_from(fit).unwrap_or(u32::MAX).min(most).max(1);
        Ok(LaunchConfig { grid: config.grid.x.min(fit).into(), ..config })
    }
}

impl Arrays {
    /// Adds an array that kernels read.
    pub fn input<T: Word>(&mut self, name: &'static str, elements: impl Into<Arc<Vec<T>>>) -> Handle<T> {
        self.add(name, elements.into(), Role::Input)
    }

    /// Adds an array of `len` elements that kernels write completely.
    pub fn output<T: Word>(&mut self, name: &'static str, len: usize) -> Handle<T> {
        let mut unwritten = T::zeroed();
        bytemuck::bytes_of_mut(&mut unwritten).fill(UNWRITTEN);
        self.add(name, Arc::new(elements(len, |_| unwritten)), Role::Written)
    }

    /// Adds an array that kernels change, completely or in part.
    pub fn changed<T: Word>(&mut self, name: &'static str, elements: Vec<T>) -> Handle<T> {
        self.add(name, Arc::new(elements), Role::Changed)
    }

    /// Adds scratch memory; its content is not checked.
    pub fn scratch<T: Word>(&mut self, name: &'static str, elements: Vec<T>) -> Handle<T> {
        self.add(name, Arc::new(elements), Role::Scratch)
    }

    /// The problem of one launch of the rung's kernel.
    ///
    /// # Safety
    /// The kernel's contract holds for this grid and these arguments.
    pub unsafe fn launch<A: 'static, F: Sync + 'static>(
        self,
        rung: &'static Rung<A, F>,
        config: LaunchConfig,
        arguments: impl Fn(&Placed) -> A + Send + Sync + 'static,
        oracle: impl Fn(&'static str, usize) -> Bound + Send + Sync + 'static,
    ) -> Problem {
        // SAFETY: the caller's contract.
        let launch = move |on: &dyn Launcher, placed: &Placed| unsafe {
            (rung.kernel.launch)(on, config, arguments(placed))
        };
        Problem::new(self, launch, oracle)
    }

    fn add<T: Word>(&mut self, name: &'static str, elements: Arc<Vec<T>>, role: Role) -> Handle<T> {
        self.arrays.push(Box::new(Array { name, elements, role }));
        Handle { index: self.arrays.len() - 1, elements: PhantomData }
    }
}

type Launch = dyn Fn(&dyn Launcher, &Placed) -> Result<(), LaunchError> + Send + Sync;
type Oracle = dyn Fn(&'static str, usize) -> Bound + Send + Sync;

/// A trial's problem.
pub struct Problem {
    arrays: Arrays,
    launch: Arc<Launch>,
    oracle: Box<Oracle>,
}

impl Problem {
    /// Creates a problem; `launch` passes its arrays to kernels. `oracle` returns the expected value of an output element,
    /// by array name and index.
    pub fn new(
        arrays: Arrays,
        launch: impl Fn(&dyn Launcher, &Placed) -> Result<(), LaunchError> + Send + Sync + 'static,
        oracle: impl Fn(&'static str, usize) -> Bound + Send + Sync + 'static,
    ) -> Self {
        Self { arrays, launch: Arc::new(launch), oracle: Box::new(oracle) }
    }

    /// Runs it with guards around its arrays, and returns its outputs.
    ///
    /// # Errors
    /// A kernel failed, wrote outside its outputs or to an input, or did not write a part of its output.
    pub fn run(&self, device: &Device) -> Result<Outputs> {
        let mut test = KernelTest::new();
        let guarded: Vec<Guarded> = self.arrays.arrays.iter().map(|array| array.guard(&mut test)).collect();
        let results = test.run_on(device, |on, memory| {
            let raw = guarded.iter().map(|array| (array.place)(memory)).collect();
            let placed = Placed { raw, device: device.clone() };
            (self.launch)(on, &placed)
        })?;
        Ok(guarded.iter().filter_map(|array| array.read.as_ref()).map(|read| read(&results)).collect())
    }

    /// The expected outputs.
    pub fn expected(&self) -> Expected {
        let outputs = self.arrays.arrays.iter().filter(|array| array.is_output());
        let all = |array: &dyn AnyArray| {
            let bounds = (0..array.len()).map(|i| (self.oracle)(array.name(), i));
            (array.name(), bounds.collect())
        };
        outputs.map(|array| all(&**array)).collect()
    }

    /// Places the arrays on the device, for many launches.
    ///
    /// # Errors
    /// There is not enough memory for them, or the device failed.
    pub fn place(&self, device: &Device) -> Result<Session, DeviceError> {
        let owned = self.arrays.arrays.iter().map(|array| array.upload(device));
        let owned = owned.collect::<Result<Vec<_>, _>>()?;
        let raw = owned.iter().map(|owned| owned.raw).collect();
        let placed = Placed { raw, device: device.clone() };
        Ok(Session { placed, launch: Arc::clone(&self.launch), owned })
    }

    /// Launches once in the session and checks the outputs: all elements of an output of up to 4096, or 64 runs of 64
    /// neighbours of a larger one, from the first element to the last.
    ///
    /// # Errors
    /// The launch failed, or an element is wrong.
    pub fn check(&self, session: &mut Session) -> Result<()> {
        session.launch().context("the launch failed")?;
        for (array, owned) in self.arrays.arrays.iter().zip(&session.owned) {
            if array.is_output() {
                for place in checked(array.len()) {
                    let got = (owned.read)(&*owned.buffer, place.clone())?;
                    let want = self.bounds(&**array, place.clone());
                    compare(array.name(), &got, &want)
                        .with_context(|| format!("of elements {place:?}, counted from there"))?;
                }
            }
        }
        Ok(())
    }

    /// The expected values of these elements of an output; uses all cores, because one element may need a pass over the
    /// inputs.
    fn bounds(&self, array: &dyn AnyArray, place: Range<usize>) -> Vec<Bound> {
        let name = array.name();
        place.into_par_iter().map(|i| (self.oracle)(name, i)).collect()
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.arrays.arrays.iter().map(|array| array.bytes()).sum()
    }
}

/// The elements to compare of `len` elements.
fn checked(len: usize) -> impl Iterator<Item = Range<usize>> {
    let (places, each) = if len <= CHECKED { (1, len) } else { (PLACES, PLACES) };
    let first = move |place| (len - each) * place / (places - 1).max(1);
    (0..places).map(first).map(move |first| first..first + each)
}

/// The arrays of a problem on a device, and its launch.
pub struct Session {
    placed: Placed,
    launch: Arc<Launch>,
    owned: Vec<Owned>,
}

// SAFETY: the pointers in `placed` are to the buffers in `owned`, which move with the session.
unsafe impl Send for Session {}

impl Session {
    /// Launches the kernels again, on the data that the last launch has left.
    ///
    /// # Errors
    /// A launch failed.
    pub fn launch(&mut self) -> Result<(), DeviceError> {
        Ok((self.launch)(&self.placed.device, &self.placed)?)
    }
}

/// An array in device memory.
struct Owned {
    /// A `Buffer<T>`.
    buffer: Box<dyn Any + Send>,
    raw: RawBuffer<u8>,
    read: fn(&(dyn Any + Send), Range<usize>) -> Result<Vec<f64>>,
}

/// An array of a test.
struct Guarded {
    place: Box<Place>,
    /// For an output.
    read: Option<Box<Read>>,
}

type Place = dyn Fn(&Memory<'_>) -> RawBuffer<u8>;
type Read = dyn Fn(&Results) -> (&'static str, Vec<f64>);

/// An array with any element type.
trait AnyArray: Send + Sync {
    fn name(&self) -> &'static str;
    fn len(&self) -> usize;
    fn bytes(&self) -> usize;
    fn is_output(&self) -> bool;
    fn guard(&self, test: &mut KernelTest<'_>) -> Guarded;
    fn upload(&self, device: &Device) -> Result<Owned, DeviceError>;
}

impl<T: Word> AnyArray for Array<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.elements[..])
    }

    fn is_output(&self) -> bool {
        matches!(self.role, Role::Written | Role::Changed)
    }

    fn guard(&self, test: &mut KernelTest<'_>) -> Guarded {
        let name = self.name;
        let output = match self.role {
            Role::Input => {
                let input = test.input(name, &self.elements);
                let place = move |memory: &Memory<'_>| RawBuffer::slice(memory.input(input)).cast();
                return Guarded { place: Box::new(place), read: None };
            }
            Role::Written => test.unwritten::<T>(name, Layout::dense(1, self.len())),
            Role::Changed => test.output(name, &self.elements),
            Role::Scratch => test.scratch(name, &self.elements),
        };
        let read = move |results: &Results| (name, wide(&results.of(output)));
        Guarded {
            place: Box::new(move |memory| RawBuffer::written(memory.output(output)).cast()),
            read: self.is_output().then(|| Box::new(read) as _),
        }
    }

    fn upload(&self, device: &Device) -> Result<Owned, DeviceError> {
        let mut buffer = device.upload(&self.elements[..])?;
        let raw = RawBuffer::written(&mut buffer).cast();
        let read = |buffer: &(dyn Any + Send), place: Range<usize>| {
            let buffer = buffer.downcast_ref::<ferrowarp::device::Buffer<T>>();
            let buffer = buffer.context("the array has elements of another type")?;
            Ok(wide(&buffer.view(place)?.to_vec()?))
        };
        Ok(Owned { buffer: Box::new(buffer), raw, read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_elements_are_compared_all_and_many_from_the_first_to_the_last() {
        for len in [0, 1, CHECKED] {
            assert!(checked(len).eq(std::iter::once(0..len)));
        }
        for len in [CHECKED + 1, 1 << 20, (1 << 28) + 3] {
            let places: Vec<Range<usize>> = checked(len).collect();
            assert_eq!((places.len(), places[0].start, places[PLACES - 1].end), (PLACES, 0, len));
            assert!(places.iter().all(|place| place.len() == PLACES), "{len}");
            assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{len}: {places:?}");
        }
    }

    #[test]
    fn a_wrong_element_at_either_end_is_found() {
        for (len, wrong) in [(100, 99), (1 << 16, 0), (1 << 16, (1 << 16) - 1)] {
            let mut arrays = Arrays::default();
            arrays.changed("out", elements(len, |i| i as u32));
            let oracle = move |_, i| Bound::exact((i + usize::from(i == wrong)) as f64);
            let problem = Problem::new(arrays, |_, _| Ok(()), oracle);
            let mut session = problem.place(&Device::cpu()).unwrap();
            let error = format!("{:#}", problem.check(&mut session).unwrap_err());
            assert!(error.contains(&format!("is {wrong:e}, not ")), "{error}");
        }
    }
}
