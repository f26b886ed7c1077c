//! Arguments in a struct.

use cuda_std::KernelArgs;

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
pub struct Arguments<T> {
    pub out: *mut T,
    pub inp: *const [T],
    pub factor: f32,
}

kernels! {
    //@ ptx: ld.global.b32 == 1
    //@ ptx: st.global.b32 == 1
    //@ ptx: .local == 0
    struct_of_arguments(args: Arguments<f32>) {
        if !args.inp.is_empty() {
            *args.out = args.factor * *args.inp.cast::<f32>();
        }
    }
}
