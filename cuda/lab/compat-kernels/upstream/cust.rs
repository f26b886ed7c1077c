//! `cust`, as far as upstream's guide and examples use it.

use super::Row::{Absent, Differs, Fixed, Item, Same};
use super::{Difference, Group, On};

const PROGRAMS: &str = "cust/tests/programs.rs::programs_for_upstream_run";
const SOUNDNESS: &str =
    "cust/tests/soundness.rs::objects_outlive_their_context_and_are_left_alone_after_a_fork";

pub const GROUPS: &[Group] = &[
    Group {
        path: "cust",
        on: On::Host,
        rows: &[
            Item("{context|device|error|event|function|memory|module|prelude|stream|sys|util}"),
            Item("{launch|CudaApiVersion|CudaFlags|DeviceCopy}"),
            Same("init(CudaFlags) -> error::CudaResult<()>"),
            Same("quick_init() -> error::CudaResult<context::Context>"),
            Same("CudaApiVersion::get() -> error::CudaResult<CudaApiVersion>"),
            Same("CudaApiVersion::{major|minor}(CudaApiVersion) -> i32"),
            Same("context::Context::new(device::Device) -> error::CudaResult<context::Context>"),
            Same("context::CurrentContext::set_current(&context::Context) -> error::CudaResult<()>"),
            Same("context::CurrentContext::synchronize() -> error::CudaResult<()>"),
            Fixed(super::Fixed {
                item: "panics if lengths differ, a string has a NUL byte, or a global variable has another size",
                here: "errors with the values",
                test: PROGRAMS,
            }),
            Fixed(super::Fixed {
                item: "`Module::from_cubin` and `from_fatbin`, which let the driver read past the end of a truncated image",
                here: "`CudaError::InvalidImage`",
                test: PROGRAMS,
            }),
            Fixed(super::Fixed {
                item: "a context that is released while streams, events, modules or memory of it are alive",
                here: "it lives as long as they do",
                test: SOUNDNESS,
            }),
            Fixed(super::Fixed {
                item: "`Symbol`, which copies any bytes of a variable as a value of any type",
                here: "`AnyBitPattern` types only; rustc: `the trait bound .. is not satisfied`",
                test: PROGRAMS,
            }),
            Fixed(super::Fixed {
                item: "calls and drops in a process that was forked, which may end it",
                here: "`CudaError::Forked`; drops do nothing",
                test: SOUNDNESS,
            }),
            Differs(Difference {
                item: "the build, which needs a CUDA installation or `CUDA_LIBRARY_PATH`",
                here: "no installation: the first call loads the driver's library",
                reason: "a program builds and starts on machines without CUDA",
                error: "`no CUDA driver library is loaded`, with the library's name and the loader's reason",
                test: "cust/tests/no_driver.rs::without_a_driver_calls_are_errors",
            }),
            Absent(Difference {
                item: "{external|link|context::legacy|memory::array}, textures, surfaces, and the flags of contexts",
                here: "the registry's `cust`",
                reason: "no program of upstream's guide needs them",
                error: "rustc: `unresolved import cust::link`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: &[PROGRAMS, "cust/tests/loading.rs::calls_reach_the_loaded_driver"],
    },
    Group {
        path: "cust::error",
        on: On::Host,
        rows: &[
            Item("{CudaError|CudaResult}"),
            Differs(Difference {
                item: "`CudaError`, an enum of the codes of CUDA 11.4",
                here: "an enum of any driver code and of invalid input; the codes are constants with upstream's names",
                reason: "an enum of known codes would lose the codes of a newer driver",
                error: "rustc: `non-primitive cast`, if a program casts the variant to a number",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: &["cust/tests/loading.rs::calls_reach_the_loaded_driver"],
    },
    Group {
        path: "cust::device",
        on: On::Host,
        rows: &[
            Item("{Device|DeviceAttribute}"),
            Same("Device::num_devices() -> cust::error::CudaResult<u32>"),
            Same("Device::get_device(u32) -> cust::error::CudaResult<Device>"),
            Same("Device::name(Device) -> cust::error::CudaResult<String>"),
            Same("Device::total_memory(Device) -> cust::error::CudaResult<usize>"),
            Same("Device::get_attribute(Device, DeviceAttribute) -> cust::error::CudaResult<i32>"),
        ],
        tests: &[PROGRAMS],
    },
    Group {
        path: "cust::module",
        on: On::Host,
        rows: &[
            Item("{Module|ModuleJitOption|OptLevel|Symbol}"),
            Same("Module::from_ptx(&str, &[ModuleJitOption]) -> cust::error::CudaResult<Module>"),
            Same(
                "Module::from_ptx_cstr(&core::ffi::CStr, &[ModuleJitOption]) -> cust::error::CudaResult<Module>",
            ),
            Same(
                "Module::{from_cubin|from_fatbin}(&[u8], &[ModuleJitOption]) -> cust::error::CudaResult<Module>",
            ),
            Same(
                "Module::get_function(&'static Module, &'static str) -> cust::error::CudaResult<cust::function::Function<'static>>",
            ),
        ],
        tests: &[PROGRAMS],
    },
    Group {
        path: "cust::function",
        on: On::Host,
        rows: &[
            Item("{BlockSize|Function|FunctionAttribute|GridSize}"),
            Same("GridSize::{x|from}(u32) -> GridSize"),
            Same("GridSize::xy(u32, u32) -> GridSize"),
            Same("BlockSize::{x|from}(u32) -> BlockSize"),
            Same("BlockSize::xyz(u32, u32, u32) -> BlockSize"),
            Same("Function::get_attribute(&Function<'_>, FunctionAttribute) -> cust::error::CudaResult<i32>"),
            Same(
                "Function::suggested_launch_configuration(&Function<'_>, usize, BlockSize) -> cust::error::CudaResult<(u32, u32)>",
            ),
        ],
        tests: &[PROGRAMS],
    },
    Group {
        path: "cust::prelude",
        on: On::Host,
        rows: &[
            Item(
                "{launch|Context|Device|DeviceBuffer|DevicePointer|DeviceSlice|Event|EventFlags|EventStatus|Function}",
            ),
            Item(
                "{Module|Stream|StreamFlags|UnifiedBuffer|CopyDestination|DeviceCopyExt|SliceExt|CudaFlags}",
            ),
            Same("Stream::new(StreamFlags, Option<i32>) -> cust::error::CudaResult<Stream>"),
            Same("Stream::synchronize(&Stream) -> cust::error::CudaResult<()>"),
            Same("Event::new(EventFlags) -> cust::error::CudaResult<Event>"),
            Same("Event::record(&Event, &Stream) -> cust::error::CudaResult<()>"),
            Same("Event::query(&Event) -> cust::error::CudaResult<EventStatus>"),
            Same("Event::synchronize(&Event) -> cust::error::CudaResult<()>"),
            Same("Event::elapsed_time_f32(&Event, &Event) -> cust::error::CudaResult<f32>"),
        ],
        tests: &[PROGRAMS],
    },
    Group {
        path: "cust::memory",
        on: On::Host,
        rows: &[
            Item("{AsyncCopyDestination|CopyDestination|DeviceCopy|bytemuck}"),
            Item("{DeviceBox|DeviceBuffer|DevicePointer|DeviceSlice|LockedBuffer|UnifiedBuffer}"),
            Same("mem_get_info() -> cust::error::CudaResult<(usize, usize)>"),
            Same(
                "{B:DeviceBuffer|LockedBuffer|UnifiedBuffer}::from_slice(&[f32]) -> cust::error::CudaResult<{B}<f32>>",
            ),
            Same(
                "unsafe {B:DeviceBuffer|LockedBuffer|UnifiedBuffer}::uninitialized(usize) -> cust::error::CudaResult<{B}<f32>>",
            ),
            Same("DeviceBuffer::zeroed(usize) -> cust::error::CudaResult<DeviceBuffer<f32>>"),
            Same("DeviceBox::new(&f32) -> cust::error::CudaResult<DeviceBox<f32>>"),
            Same("cust::util::DeviceCopyExt::as_dbox(&f32) -> cust::error::CudaResult<DeviceBox<f32>>"),
            Same("DeviceSlice::as_device_ptr(&DeviceSlice<f32>) -> DevicePointer<f32>"),
            Same("DeviceSlice::as_host_vec(&DeviceSlice<f32>) -> cust::error::CudaResult<Vec<f32>>"),
            Same("CopyDestination::copy_to(&DeviceBox<f32>, &mut f32) -> cust::error::CudaResult<()>"),
            Same("CopyDestination::copy_to(&DeviceSlice<f32>, &mut Vec<f32>) -> cust::error::CudaResult<()>"),
            Same("CopyDestination::copy_from(&mut DeviceSlice<f32>, &[f32]) -> cust::error::CudaResult<()>"),
            Same("cust::util::SliceExt::as_dbuf(&[f32]) -> cust::error::CudaResult<DeviceBuffer<f32>>"),
            Same(
                "cust::util::SliceExt::as_unified_buf(&[f32]) -> cust::error::CudaResult<UnifiedBuffer<f32>>",
            ),
        ],
        tests: &[PROGRAMS, "cust/tests/device_copy.rs::structs_of_plain_values_are_copied"],
    },
];
