//! The attributes of `cuda_std`: `#[kernel]`, `#[gpu_only]`, `#[externally_visible]`, `#[address_space(..)]`, its derive
//! `KernelArgs`, and that of `cust`: `DeviceCopy`.
//!
//! Use them through these two crates, which re-export them. The generated code refers to items of those crates.

mod address_space;
mod device_copy;
mod gpu_only;
mod kernel;
mod kernel_args;
mod tokens;

use proc_macro::TokenStream;

/// Marks a function as a kernel: an entry point that the host launches on a grid of threads.
///
/// The function is `unsafe`, free-standing, returns nothing, and every parameter is `Copy`: scalars and plain structs by
/// value, `*const T` and `*mut T` for device memory, `&[T]` for a read-only array. A slice, `&[T]`, `*const [T]` or
/// `*mut [T]`, is passed as two arguments, pointer and length; a type without size is not passed; everything else is
/// passed as it is. Types decide this, so an alias or a macro's `$t:ty` counts as the type behind it. `&mut` is refused,
/// because many threads would hold it at once; use `*mut T`. So are other pointers of two words, such as `&str`, and
/// references to what must be dropped, such as a struct with a `Vec`. The fields of a struct that is passed by value are
/// not checked: a reference or pointer there must lead to device memory. [`KernelArgs`](derive@KernelArgs) checks them.
///
/// A struct aligned to more than 16 bytes stays where the launch put it, unless the kernel changes it. So a tensor map
/// may be a parameter or a field of one. Pass it on by reference, to functions that are inlined.
///
/// On `nvptx64` the kernel is an `extern "ptx-kernel"` entry of the same name. On the host the function stays
/// callable as it is, and a type of the same name carries
///
/// * `NAME::META`, the kernel's name and source location ([`KernelMeta`](../cuda_std/launch/struct.KernelMeta.html)),
/// * `unsafe fn NAME::launch(on, config, ..)`, with arguments that the host's compiler checks.
///
/// The type is called `NAME_kernel` if it would clash with a module, as in `mod gemm; pub use gemm::gemm;`: for a
/// kernel in a file of its own name, or in one that declares such a module. That `use` imports only the function;
/// `pub use gemm::*;` or `pub mod gemm;` lets others launch it by its type too.
///
/// `#[kernel(min_arch = 90)]` is for a kernel with instructions that devices before compute capability 9.0 lack: it is
/// not in the PTX for those, and a launch there is refused. `#[kernel(max_threads = 256, min_blocks = 4)]` promises
/// blocks of at most 256 threads, and limits registers so that 4 of them fit a multiprocessor (PTX ISA, `.maxntid` and
/// `.minnctapersm`; CUDA's `__launch_bounds__`); larger blocks are refused. `max_threads` is at most 1024, and the
/// product of both at most 2048.
///
/// `#[kernel(arch = "90a")]` is for a kernel with instructions that only devices of compute capability 9.0 have, such
/// as `wgmma`. It is only in the PTX for `compute_90a`, which `cuda_builder` writes next to that for `compute_90`. The
/// CPU executor runs it; a launch on any other device is refused.
///
/// `#[kernel(cooperative)]` is for a kernel whose blocks wait for each other
/// ([`cuda_std::grid`](../cuda_std/grid/index.html)): every launch of it is cooperative, with all blocks of the grid on
/// the device at once, and a grid that is too large is refused.
///
/// `#[kernel(cpu_only)]` is for a kernel that only the CPU executor launches, because it would be slow on a GPU: no PTX
/// has it, and a launch on a GPU is refused. Its function still exists on `nvptx64`.
///
/// Other arguments of the attribute are accepted and ignored, as Rust-CUDA does.
///
/// # Instances
/// A generic function becomes an entry point for each line of `instances(..)`, and stays callable itself:
///
/// ```ignore
/// #[kernel(
///     with(WARPS = max(BLOCK / 32, 1)),
///     max_threads = BLOCK,
///     min_blocks = 1024 / BLOCK,
///     args = Arguments,
///     facts: Width = Width { block: BLOCK, columns: BLOCK * 4 },
///     instances(
///         sum_f64_64 = <f64, 64>;
///         for T in [f16, bf16] {
///             sum_{T}_64 = <64>, min_blocks = 21;
///             sum_{T}_256 = <256>;
///         }
///     ),
/// )]
/// pub unsafe fn sum<T: Number, const BLOCK: usize, const WARPS: usize>(
///     #[shared(WARPS)] shared: *mut f32,
///     out: *mut T,
///     inp: &[T],
/// ) { .. }
/// ```
///
/// * A line lists, in order, the type and const parameters that nothing else sets. Others are set by the header of its
///   group (`for T in [..]`, which repeats the group for each type, and `NAME = value`), by a `NAME = value` after the
///   list, which takes precedence over the header's, or by `with(..)`, which computes const parameters from others.
/// * `#[cfg(..)]` before a group's header is the condition of these instances.
/// * A name may contain parameters in braces.
/// * `max_threads`, `min_blocks`, `min_arch` and `with(..)` are expressions of integers and const parameters, with
///   `+ - * / %`, `min(a, b)` and `max(a, b)`; a line or a header may set its own values for the first three.
/// * `arch = "90a"` in a line or a header sets the only architecture of these instances; a `min_arch` there replaces an
///   `arch` of the attribute.
/// * `cpu_only = true` in a line or a header omits these instances from the PTX; `cpu_only = false` keeps one that its
///   header or the attribute would omit.
/// * A parameter with `#[shared(LEN)]` is not an argument of the launch: the entry point has a
///   [`shared_array!`](../cuda_std/macro.shared_array.html). Its length may depend on the const parameters here.
/// * A parameter with `#[from(TYPE)]` is passed as that type, and converted with `as`: `#[from(u32)] n: usize`.
/// * `FUNCTION::KERNELS` lists the [`KernelMeta`](../cuda_std/launch/struct.KernelMeta.html) of all instances. With
///   `args = STRUCT`, a struct with a field of the same name for each parameter, `FUNCTION::INSTANCES` lists them as
///   [`Instance`](../cuda_std/launch/struct.Instance.html). Their launches take that struct, so host code can choose
///   one at run time. With `facts: TYPE = expression` each has the value of the expression, which may name the
///   parameters and other settings of a line (`width = 7`).
///
/// * With `args` alone, for a function with a struct as its only argument ([`KernelArgs`](derive@KernelArgs)), the type
///   `FUNCTION` implements [`KernelsOf`](../cuda_std/launch/trait.KernelsOf.html) for each type of the struct in an
///   instance: lists of the kernels with their facts, which are launched with that struct.
///
/// A kernel that is not generic may have `args` and `facts` too, and is then the only one in its lists.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct usable as the only argument of a kernel, with launches that check its buffers.
///
/// For a struct `NAME` it creates, on the host, a struct `NAMEHost` to pass in its place. It has the same visibility
/// and the same fields, with each pointer replaced by what a kernel's parameter of that type takes, such as `&Buffer`
/// for `*const T` and `&mut Buffer` for `*mut T`. The launch checks that each lives on the device, as for a separate
/// parameter, and names the field if one does not. The kernel gets the struct by value, as one parameter of its PTX.
///
/// `NAMELaunch`, or `STARTLaunch` if the name is `STARTArgs`, is this struct with a
/// [`RawBuffer`](../cuda_std/launch/struct.RawBuffer.html) for each pointer.
///
/// The struct is `#[repr(C)]` and `Copy`, and its fields have names:
///
/// * `*const T`, `*mut T`, `*const [T]` and `*mut [T]`, for memory. Write them as pointers: an alias
///   (`type Out = *mut f32`) is refused, and so are references.
/// * Everything else is passed as it is, and pointers in it are not checked.
///
/// The struct itself may be passed as well; that is a launch with raw pointers, which are not checked.
#[proc_macro_derive(KernelArgs)]
pub fn kernel_args(item: TokenStream) -> TokenStream {
    kernel_args::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Marks a function that only exists on the GPU: on the host its body becomes a panic that says so.
#[proc_macro_attribute]
pub fn gpu_only(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    gpu_only::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Keeps a `#[no_mangle]` function in the PTX even if no kernel calls it.
#[proc_macro_attribute]
pub fn externally_visible(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    gpu_only::externally_visible(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Places a static in an address space of the GPU: `shared` (one per block), `constant` or `global`.
///
/// A shared static is an array of `MaybeUninit`, since no block initialises it. On the CPU executor a program with a
/// shared static runs one block at a time; `cuda_std::shared_array!` has no such limit.
#[proc_macro_attribute]
pub fn address_space(arguments: TokenStream, item: TokenStream) -> TokenStream {
    address_space::expand(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `cust::memory::DeviceCopy` for a type whose fields all are: for plain values, without references.
#[proc_macro_derive(DeviceCopy)]
pub fn device_copy(item: TokenStream) -> TokenStream {
    device_copy::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
