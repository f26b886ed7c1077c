use std::mem::MaybeUninit;

use cuda_std::{address_space, kernel};

#[kernel]
fn safe(out: *mut f32) {}

#[kernel]
unsafe fn exclusive(out: &mut [f32]) {}

#[kernel]
unsafe fn generic<T>(out: *mut T) {}

#[kernel]
unsafe fn returns(out: *mut f32) -> f32 {
    0.0
}

#[kernel]
unsafe fn text(out: *mut f32, name: &str) {}

#[address_space(local)]
static mut LOCAL: [MaybeUninit<f32>; 4] = [MaybeUninit::uninit(); 4];

#[address_space(shared)]
static FROZEN: [MaybeUninit<f32>; 4] = [MaybeUninit::uninit(); 4];

#[kernel(min_arch = "sm_90")]
unsafe fn too_wordy() {}

#[kernel(min_blocks = 4)]
unsafe fn half_bounded() {}

#[kernel(cooperative = true)]
unsafe fn wordy_too() {}

#[kernel(cpu_only = true)]
unsafe fn as_wordy() {}

#[kernel(arch = 90)]
unsafe fn without_letter() {}

#[kernel(arch = "sm_90a")]
unsafe fn with_prefix() {}

#[kernel(arch = "100f")]
unsafe fn family() {}

#[kernel(arch = "90a", min_arch = 90)]
unsafe fn both() {}

#[kernel]
unsafe fn r#type(x: u32) {}

#[kernel]
unsafe fn größe(x: u32) {}

#[cuda_std::externally_visible]
#[unsafe(no_mangle)]
fn äußere(x: u32) {}

#[kernel(max_threads = 0)]
unsafe fn no_threads() {}

#[kernel(max_threads = 4096)]
unsafe fn too_many_threads() {}

#[kernel(max_threads = 64, min_blocks = 0)]
unsafe fn no_blocks() {}

#[kernel(max_threads = 1024, min_blocks = 3)]
unsafe fn too_large_blocks() {}

#[kernel(min_arch = 9)]
unsafe fn no_such_arch() {}

#[kernel(arch = "91a")]
unsafe fn no_such_specific_arch() {}

fn main() {}
