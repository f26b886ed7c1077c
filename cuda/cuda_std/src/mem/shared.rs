//! Loads and stores through a [`SharedPtr`].

use super::Vector;
#[cfg(target_arch = "nvptx64")]
use super::{from_words, to_words};
#[cfg(not(target_arch = "nvptx64"))]
use super::{load_shared, store_shared};
use crate::shared::SharedPtr;

impl<V: Vector> SharedPtr<V> {
    /// Reads the vector, like [`load_shared`] through a generic pointer, and stays where it is in the source.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-loads-and-stores).
    #[doc(alias = "ld.shared")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self) -> V {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid pointer. The load only reads.
        unsafe {
            let address = self.address();
            load_asm!("", "ld.shared", "[{ptr}]", ";", reg32 address, [], readonly)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid pointer.
        unsafe {
            load_shared(self.pointer())
        }
    }

    /// Writes the vector, like [`store_shared`] through a generic pointer.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-loads-and-stores).
    #[doc(alias = "st.shared")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write(self, vector: V) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid pointer.
        unsafe {
            let address = self.address();
            store_asm!("", "st.shared", "[{ptr}]", ";", reg32 address, vector, []);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid pointer.
        unsafe {
            store_shared(self.pointer(), vector);
        }
    }
}
