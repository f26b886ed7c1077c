//! Modules: loaded PTX or machine code, with its kernels and global variables.

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ptr;

use bytemuck::AnyBitPattern;

use crate::context::InContext;
use crate::error::{CudaError, CudaResult};
use crate::function::Function;
use crate::memory::copy::DeviceCopy;
use crate::memory::device::{CopyDestination, DeviceSlice};
use crate::memory::pointer::DevicePointer;
use crate::sys::{self, CUjit_option, CUmodule};

/// The optimisation level of the driver's PTX compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are levels")]
pub enum OptLevel {
    O0,
    O1,
    O2,
    O3,
    O4,
}

/// An option of the driver's PTX compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleJitOption {
    /// Maximum registers per thread.
    MaxRegisters(u32),
    /// The optimisation level, 4 by default.
    OptLevel(OptLevel),
    /// Compiles for the current context's device, which is also the default.
    DetermineTargetFromContext,
    /// Whether to keep line numbers for profilers.
    GenerateLineInfo(bool),
}

impl ModuleJitOption {
    /// The option's number in cuda.h, and its value.
    fn raw(self) -> (CUjit_option, usize) {
        match self {
            ModuleJitOption::MaxRegisters(registers) => (0, registers as usize),
            ModuleJitOption::OptLevel(level) => (7, level as usize),
            ModuleJitOption::DetermineTargetFromContext => (8, 0),
            ModuleJitOption::GenerateLineInfo(wanted) => (13, usize::from(wanted)),
        }
    }
}

/// A loaded module, unloaded when dropped.
#[derive(Debug)]
pub struct Module {
    raw: CUmodule,
    /// `None` for a module of the caller's own.
    _context: Option<InContext>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Module {}

impl Module {
    /// Loads PTX into the current context.
    ///
    /// # Errors
    /// The text contains a NUL byte, the driver's compiler rejects it, or it is newer than the driver.
    pub fn from_ptx(ptx: impl AsRef<str>, options: &[ModuleJitOption]) -> CudaResult<Module> {
        Self::from_ptx_cstr(&c_string("the PTX", ptx.as_ref())?, options)
    }

    /// Loads PTX into the current context.
    ///
    /// # Errors
    /// The driver's compiler rejects it, or it is newer than the driver.
    pub fn from_ptx_cstr(ptx: &CStr, options: &[ModuleJitOption]) -> CudaResult<Module> {
        // SAFETY: PTX ends at its NUL.
        unsafe { Self::load(ptx.to_bytes_with_nul(), options) }
    }

    /// Loads machine code, a cubin, into the current context.
    ///
    /// # Errors
    /// [`CudaError::InvalidImage`] if the image is invalid or incomplete, [`CudaError::NoBinaryForGpu`] if it is for other
    /// devices.
    pub fn from_cubin(bytes: impl AsRef<[u8]>, options: &[ModuleJitOption]) -> CudaResult<Module> {
        let bytes = bytes.as_ref();
        if !bytes.starts_with(b"\x7fELF") || !is_whole_elf(bytes) {
            return Err(CudaError::InvalidImage);
        }
        // SAFETY: the image contains everything in its header.
        unsafe { Self::load(bytes, options) }
    }

    /// Loads a bundle of machine code and PTX, a fatbin, into the current context.
    ///
    /// # Errors
    /// [`CudaError::InvalidImage`] if the image is invalid or incomplete, [`CudaError::NoBinaryForGpu`] if it is for other
    /// devices.
    pub fn from_fatbin(bytes: impl AsRef<[u8]>, options: &[ModuleJitOption]) -> CudaResult<Module> {
        const MAGIC: u64 = 0xba55_ed50;
        let bytes = bytes.as_ref();
        // The magic number, the version, the header's length, and the length of the rest.
        let lengths = (number(bytes, 0, 4), number(bytes, 6, 2), number(bytes, 8, 8));
        let (Some(MAGIC), Some(header), Some(rest)) = lengths else { return Err(CudaError::InvalidImage) };
        if header.checked_add(rest).is_none_or(|end| end > bytes.len() as u64) {
            return Err(CudaError::InvalidImage);
        }
        // SAFETY: the image contains everything in its header.
        unsafe { Self::load(bytes, options) }
    }

    /// # Safety
    /// The image is complete: the driver reads as far as its header or its NUL indicates.
    unsafe fn load(image: &[u8], options: &[ModuleJitOption]) -> CudaResult<Module> {
        let (mut numbers, mut values): (Vec<CUjit_option>, Vec<*mut c_void>) = options
            .iter()
            .map(|option| option.raw())
            .map(|(n, v)| (n, ptr::without_provenance_mut(v)))
            .unzip();
        let (mut raw, context) = (ptr::null_mut(), InContext::current()?);
        // SAFETY: the caller guarantees the image; there are as many options and values as stated.
        let status = unsafe {
            sys::cuModuleLoadDataEx(
                &mut raw,
                image.as_ptr().cast(),
                numbers.len() as u32,
                numbers.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        status.ok()?;
        Ok(Module { raw, _context: Some(context) })
    }

    /// Wraps a module that the driver's own function loaded. It is unloaded with this object.
    ///
    /// # Safety
    /// `raw` is a module, no other code unloads it, and its context outlives this object.
    pub unsafe fn from_raw(raw: CUmodule) -> Self {
        Self { raw, _context: None }
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUmodule {
        self.raw
    }

    /// A kernel of the module.
    ///
    /// # Errors
    /// [`CudaError::NotFound`] if it has no kernel of that name.
    pub fn get_function(&self, name: impl AsRef<str>) -> CudaResult<Function<'_>> {
        let name = c_string("the kernel's name", name.as_ref())?;
        let mut raw = ptr::null_mut();
        // SAFETY: the out parameter and the name are valid, and the module is loaded.
        unsafe { sys::cuModuleGetFunction(&mut raw, self.raw, name.as_ptr()) }.ok()?;
        // SAFETY: the module is borrowed as long as the kernel.
        Ok(unsafe { Function::new(raw) })
    }

    /// A global variable of the module, to copy from and to.
    ///
    /// # Errors
    /// [`CudaError::NotFound`] if it has no variable of that name, [`CudaError::SymbolSize`] if its size is not that of `T`.
    pub fn get_global<'a, T: DeviceCopy>(&'a self, name: &CStr) -> CudaResult<Symbol<'a, T>> {
        let (mut address, mut found) = (0, 0);
        // SAFETY: the out parameters and the name are valid, and the module is loaded.
        unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut found, self.raw, name.as_ptr()) }.ok()?;
        if found != size_of::<T>() {
            return Err(CudaError::SymbolSize { found, expected: size_of::<T>() });
        }
        // SAFETY: the variable has the type's size and lives as long as the module.
        let slice = unsafe { DeviceSlice::from_raw_parts(DevicePointer::from_raw(address), 1) };
        Ok(Symbol { slice, module: PhantomData })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: this object owns the module. After a failure it lives until the context ends.
        let _ = unsafe { sys::cuModuleUnload(self.raw) };
    }
}

/// A global variable of a module.
#[derive(Debug)]
pub struct Symbol<'a, T: DeviceCopy> {
    slice: DeviceSlice<T>,
    module: PhantomData<&'a Module>,
}

/// The module decides which bytes the variable begins with, so only a type for which all bytes are values can be copied.
///
/// ```compile_fail,E0277
/// fn read(symbol: &cust::module::Symbol<'_, std::num::NonZeroU32>, value: &mut std::num::NonZeroU32) {
///     let _ = cust::memory::CopyDestination::copy_to(symbol, value);
/// }
/// ```
impl<T: DeviceCopy + AnyBitPattern> CopyDestination<T> for Symbol<'_, T> {
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        self.slice.copy_from(std::slice::from_ref(source))
    }

    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        self.slice.copy_to(std::slice::from_mut(dest))
    }
}

fn c_string(what: &'static str, text: &str) -> CudaResult<CString> {
    CString::new(text).map_err(|error| CudaError::NulByte { what, at: error.nul_position() })
}

/// Whether the section and segment tables at the end of a cubin lie within it.
fn is_whole_elf(bytes: &[u8]) -> bool {
    // The table's offset, the size of an entry, and their number, at their offsets in a 64-bit header.
    [(40, 58, 60), (32, 54, 56)].into_iter().all(|(offset, entry, entries)| {
        let end = || {
            let size = number(bytes, entry, 2)? * number(bytes, entries, 2)?;
            number(bytes, offset, 8)?.checked_add(size)
        };
        end().is_some_and(|end| end <= bytes.len() as u64)
    })
}

/// The little-endian number of `len` bytes at `at`, if it is within the bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}
