//! What the source does not show, the type does.

use cuda_std::kernel;

type Exclusive<'a> = &'a mut [f32];
type Text<'a> = &'a str;
type Dynamic = *const dyn Send;

#[kernel]
unsafe fn exclusive(_out: Exclusive) {}

#[kernel]
unsafe fn text(_out: *mut f32, _name: Text<'_>) {}

#[kernel]
unsafe fn dynamic(_of: Dynamic) {}

#[kernel]
unsafe fn trait_object(_of: &(dyn Fn() + Sync)) {}

struct Owns {
    _names: Vec<f32>,
}

#[kernel]
unsafe fn owner(_of: &Owns) {}

#[kernel]
unsafe fn owners(_of: &[Owns]) {}

#[kernel]
unsafe fn generic(_f: impl Fn()) {}

macro_rules! kernels {
    ($($name:ident: $ty:ty),*) => {$(
        #[kernel]
        unsafe fn $name(_it: $ty) {}
    )*};
}

kernels!(boxed: Box<f32>, owned: String, exclusive_in_macro: &mut f32, text_in_macro: &str);

fn main() {}
