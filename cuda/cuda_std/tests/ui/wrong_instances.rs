use cuda_std::kernel;

#[kernel(instances(too_few = <f32>;))]
unsafe fn two_parameters<T: Copy, const BLOCK: usize>(out: *mut T) {}

#[kernel(instances(twice = <1>; twice = <2>;))]
unsafe fn doubled<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(same = <1>;))]
unsafe fn same<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(misspelt = <1>, max_thread = 1;))]
unsafe fn unknown_setting<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(no_answer = <1>, cpu_only = 1;))]
unsafe fn neither_true_nor_false<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(too_short = <1>, cpu_only;))]
unsafe fn without_a_value<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(for U in [f32] { unknown_{U} = <f32>; }))]
unsafe fn unknown_parameter<T: Copy>(out: *mut T) {}

#[kernel(with(WARPS = BLOCK / 32), instances(unknown_computed = <32>;))]
unsafe fn no_such_constant<const BLOCK: usize>(out: *mut f32) {}

const HIDDEN: usize = 64;

#[kernel(max_threads = HIDDEN, instances(hidden = <32>;))]
unsafe fn not_computable<const BLOCK: usize>(out: *mut f32) {}

#[kernel(max_threads = BLOCK / (BLOCK - 32), instances(divided = <32>;))]
unsafe fn divides_by_zero<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(pointer_{T} = <*mut f32>;))]
unsafe fn no_word<T: Copy>(out: *mut T) {}

#[kernel(instances(by_value = <1>;))]
unsafe fn shared_value<const BLOCK: usize>(#[shared(BLOCK)] shared: f32, out: *mut f32) {}

#[kernel]
unsafe fn shared_without_instances(#[shared(32)] shared: *mut f32, out: *mut f32) {}

#[kernel]
unsafe fn from_without_instances(out: *mut f32, #[from(u32)] len: usize) {}

#[kernel(with(BLOCK = 32))]
unsafe fn with_alone(out: *mut f32) {}

#[kernel(instances(#[inline] BLOCK = 32 { inlined = <>; }))]
unsafe fn no_cfg<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(#[cfg(unix)] #[cfg(windows)] BLOCK = 32 { both = <>; }))]
unsafe fn two_cfgs<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(r#loop = <1>;))]
unsafe fn raw_instance<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(raw_{BLOCK}r#in = <1>;))]
unsafe fn raw_in_a_name<const BLOCK: usize>(out: *mut f32) {}

#[kernel(instances(a{T} = <s>;))]
unsafe fn keyword<T: Copy>(out: *mut T) {}

#[kernel(instances(größe_{BLOCK} = <1>;))]
unsafe fn no_ascii<const BLOCK: usize>(out: *mut f32) {}

#[kernel(max_threads = BLOCK, instances(large = <2048>;))]
unsafe fn large_blocks<const BLOCK: usize>(out: *mut f32) {}

fn main() {}
