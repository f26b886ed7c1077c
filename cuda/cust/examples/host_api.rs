//! Calls what the other example does not, and checks what comes back: memory of all kinds, events, global variables, and
//! the errors of bad input.

use std::error::Error;

use cust::context::CurrentContext;
use cust::device::DeviceAttribute;
use cust::error::{CudaError, CudaResult};
use cust::function::{BlockSize, FunctionAttribute, GridSize};
use cust::memory::{AsyncCopyDestination, DeviceBox, LockedBuffer, mem_get_info};
use cust::module::{ModuleJitOption, OptLevel};
use cust::prelude::*;
use cust::stream::StreamWaitEventFlags;

const LEN: usize = 1000;

static PTX: &str = include_str!("vecadd.ptx");

/// The program; a test calls it too.
pub fn main() -> Result<(), Box<dyn Error>> {
    cust::init(CudaFlags::empty())?;
    let device = Device::devices()?.next().ok_or("there is no CUDA device")??;
    let context = Context::new(device)?;
    let (major, memory) = (DeviceAttribute::ComputeCapabilityMajor, device.total_memory()?);
    println!("{} of compute capability {}.x", device.name()?, device.get_attribute(major)?);
    assert!(mem_get_info()?.0 <= memory);

    let options = [ModuleJitOption::OptLevel(OptLevel::O2), ModuleJitOption::GenerateLineInfo(true)];
    let module = Module::from_ptx(PTX, &options)?;
    let stream = Stream::new(StreamFlags::DEFAULT, Some(0))?;
    memories(&module, &stream)?;
    values(&module)?;
    bad_input(&module);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> CudaResult<()> {
            CurrentContext::set_current(&context)?;
            [1u8, 2].as_dbuf()?.copy_to(&mut [0; 2])?;
            CurrentContext::synchronize()
        });
        other.join().expect("the thread does not panic")
    })?;
    // The objects own a part of their context.
    let buffer = [7u8; 3].as_dbuf()?;
    drop(context);
    stream.synchronize()?;
    assert_eq!(buffer.as_host_vec()?, [7; 3]);
    println!("all calls did what they should");
    Ok(())
}

/// The kernel on buffers of each kind, between two events.
fn memories(module: &Module, stream: &Stream) -> CudaResult<()> {
    let (start, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    let halves: Vec<f32> = (0..LEN).map(|i| i as f32 / 2.0).collect();
    let lhs = halves.as_unified_buf()?;
    let locked = LockedBuffer::from_slice(&halves)?;
    let mut out = LockedBuffer::new(&0.0f32, LEN)?;
    let mut out_gpu = DeviceBuffer::<f32>::zeroed(LEN)?;
    start.record(stream)?;
    // SAFETY: the buffers live until the stream is waited for; the kernel takes two slices and a pointer, and writes as
    // many elements as the slices have.
    unsafe {
        let rhs = DeviceBuffer::from_slice_async(&locked, stream)?;
        let (grid, block) = (GridSize::xy(8, 1), BlockSize::xyz(128, 1, 1));
        launch!(module.vecadd<<<&grid, block, 0, stream>>>(
            lhs.as_device_ptr(),
            lhs.len(),
            rhs.as_device_ptr(),
            rhs.len(),
            out_gpu.as_device_ptr()
        ))?;
        out_gpu.async_copy_to(&mut out, stream)?;
        end.record(stream)?;
        stream.wait_event(&end, StreamWaitEventFlags::DEFAULT)?;
        end.synchronize()?;
    }
    assert_eq!(end.query()?, EventStatus::Ready);
    assert!(end.elapsed_time_f32(&start)? >= 0.0 && end.elapsed(&start)?.as_secs() < 60);
    assert!(out.iter().enumerate().all(|(i, &sum)| sum == i as f32), "{out:?}");
    let mut copy = DeviceBuffer::<f32>::zeroed(LEN)?;
    copy.copy_from(&out_gpu)?;
    assert_eq!(copy.as_host_vec()?, *out);
    out_gpu.set_8(0)?;
    assert_eq!(out_gpu.as_host_vec()?, [0.0; LEN]);
    // Nothing is allocated or copied for nothing.
    let mut empty = DeviceBuffer::<u64>::zeroed(0)?;
    empty.copy_from(&[][..])?;
    assert!(empty.is_empty() && empty.as_device_ptr().is_null());
    Ok(())
}

/// Single values: boxes, a global variable, attributes.
fn values(module: &Module) -> CudaResult<()> {
    let mut digest = [0u8; 32];
    let mut on_device = DeviceBox::new(&[7u8; 32])?;
    on_device.copy_to(&mut digest)?;
    assert_eq!(digest, [7; 32]);
    on_device.copy_from(&[8; 32])?;
    assert_eq!(on_device.as_host_value()?, [8; 32]);
    assert_eq!(3.5f64.as_dbox()?.as_host_value()?, 3.5);

    let mut counter = module.get_global::<u64>(c"COUNTER")?;
    counter.copy_from(&(1 << 40))?;
    let mut count = 0;
    counter.copy_to(&mut count)?;
    assert_eq!(count, 1 << 40);

    let kernel = module.get_function("vecadd")?;
    assert!(kernel.get_attribute(FunctionAttribute::NumRegisters)? > 0);
    Ok(())
}

/// Each is an error that says what was wrong, and the context goes on.
fn bad_input(module: &Module) {
    fn refused<T>(result: CudaResult<T>, error: CudaError) {
        assert_eq!(result.err(), Some(error));
    }
    let buffer = || [1u32, 2, 3].as_dbuf().expect("there is memory for three elements");
    refused(buffer().copy_to(&mut [0; 2]), CudaError::DifferentLengths { from: 3, to: 2 });
    refused(buffer().copy_from(&[0; 4]), CudaError::DifferentLengths { from: 4, to: 3 });
    refused(buffer().copy_to(&mut [1u32].as_dbuf().unwrap()), CudaError::DifferentLengths { from: 3, to: 1 });
    let (elements, element_bytes) = (usize::MAX / 2, 4);
    refused(
        DeviceBuffer::<u32>::zeroed(elements),
        CudaError::InvalidMemoryAllocation { elements, element_bytes },
    );
    refused(module.get_function("vec\0add"), CudaError::NulByte { what: "the kernel's name", at: 3 });
    refused(Module::from_ptx("a\0", &[]), CudaError::NulByte { what: "the PTX", at: 1 });
    refused(module.get_function("none"), CudaError::NotFound);
    refused(module.get_global::<u64>(c"NONE"), CudaError::NotFound);
    refused(module.get_global::<u8>(c"COUNTER"), CudaError::SymbolSize { found: 8, expected: 1 });
    refused(Module::from_cubin(b"\x7fELF", &[]), CudaError::InvalidImage);
    refused(Module::from_cubin(PTX, &[]), CudaError::InvalidImage);
    refused(
        Module::from_fatbin([0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 9, 0, 0, 0, 0, 0, 0, 0], &[]),
        CudaError::InvalidImage,
    );
    refused(Device::get_device(u32::MAX), CudaError::InvalidDevice);
    // What has no `.version` is no PTX to the driver, but an image that it does not know.
    let nonsense = Module::from_ptx("nonsense", &[]).err();
    assert!(matches!(nonsense, Some(CudaError::InvalidImage | CudaError::InvalidPtx)), "{nonsense:?}");
}
