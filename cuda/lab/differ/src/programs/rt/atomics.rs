// The third part of the runtime of all generated programs: memory for atomic operations, of which each thread has its own.

/// Joins a number to a hash.
pub fn joined(hash: u64, word: u64) -> u64 {
    mixed(hash, word)
}

macro_rules! cells {
    ($($shared:ident $global:ident $atomic:ident $int:ident;)*) => {$(
        /// A cell in the block's shared memory.
        pub fn $shared() -> &'static core::sync::atomic::$atomic {
            #[cfg(target_arch = "nvptx64")]
            {
                let cells = cuda_std::shared_array![$int; 32];
                let own = cells.wrapping_add(cuda_std::thread::thread_idx_x() as usize % 32);
                unsafe { core::sync::atomic::$atomic::from_ptr(own) }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $global()
        }

        /// A cell in global memory.
        pub fn $global() -> &'static core::sync::atomic::$atomic {
            static CELLS: [core::sync::atomic::$atomic; 32] = [const { core::sync::atomic::$atomic::new(0) }; 32];
            #[cfg(target_arch = "nvptx64")]
            let own = cuda_std::thread::index_1d() as usize % 32;
            #[cfg(not(target_arch = "nvptx64"))]
            let own = 0;
            &CELLS[own]
        }
    )*};
}
cells! {
    shared_i32 global_i32 AtomicI32 i32;
    shared_u32 global_u32 AtomicU32 u32;
    shared_i64 global_i64 AtomicI64 i64;
    shared_u64 global_u64 AtomicU64 u64;
}
