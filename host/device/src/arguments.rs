//! Buffers, views and tensors as launch arguments.

use bytemuck::Pod;
use cuda_std::launch::{PtrArg, PtrMutArg, Residence, SliceArg, SliceMutArg};

use crate::device::buffer::{Buffer, BufferView, BufferViewMut};
use crate::tensor::owned::Tensor;

/// Implements launch arguments for shared and exclusive borrows of device memory.
macro_rules! device_memory_args {
    (read: $($shared:ty),*; write: $($exclusive:ty),*) => {
        $(
            // SAFETY: the memory is valid at the device's residence while it is borrowed.
            unsafe impl<T: Pod> SliceArg<T> for $shared {
                fn as_raw_slice(&self) -> (*const T, usize) {
                    (self.first_byte().cast(), self.len())
                }
                fn residence(&self) -> Residence {
                    self.device().residence()
                }
            }
            // SAFETY: as above.
            unsafe impl<T: Pod> PtrArg<T> for $shared {
                fn as_raw_ptr(&self) -> *const T {
                    self.first_byte().cast()
                }
                fn residence(&self) -> Residence {
                    self.device().residence()
                }
                fn byte_len(&self) -> Option<usize> {
                    Some(self.len() * size_of::<T>())
                }
            }
        )*
        $(
            // SAFETY: the memory is valid at the device's residence while it is exclusively borrowed.
            unsafe impl<T: Pod> SliceMutArg<T> for $exclusive {
                fn as_raw_mut_slice(&mut self) -> (*mut T, usize) {
                    (self.first_byte().cast(), self.len())
                }
                fn residence(&self) -> Residence {
                    self.device().residence()
                }
            }
            // SAFETY: as above.
            unsafe impl<T: Pod> PtrMutArg<T> for $exclusive {
                fn as_raw_mut_ptr(&mut self) -> *mut T {
                    self.first_byte().cast()
                }
                fn residence(&self) -> Residence {
                    self.device().residence()
                }
                fn byte_len(&self) -> Option<usize> {
                    Some(self.len() * size_of::<T>())
                }
            }
        )*
    };
}

device_memory_args! {
    read: &Buffer<T>, BufferView<'_, T>, &BufferView<'_, T>, &BufferViewMut<'_, T>, &Tensor<T>;
    write: &mut Buffer<T>, BufferViewMut<'_, T>, &mut BufferViewMut<'_, T>, &mut Tensor<T>
}
