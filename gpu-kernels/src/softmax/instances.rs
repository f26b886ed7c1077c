//! Kernels of one body with other constants.

/// Kernels `$name` that call `$body::<constants>(shared, out, inp, [rows, cols])`, and the table `VARIANTS` of them:
/// each with the constants, the first of which is the block, and the width up to which the rung chooses it.
macro_rules! block_per_row {
    ($body:ident<BLOCK, WARPS, UNROLL>, shared $per_warp:literal $ty:ty;
        $($name:ident $block:literal $warps:literal $unroll:literal, $widest:expr;)*) => {
        $(
            #[doc = concat!("`out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.\n\n",
                "Launched on `rows` blocks of ", $block, " threads.\n\n# Safety\nThe launch is as said; `out` holds ",
                "`rows * cols` elements that nobody else uses; `inp` holds at least as many.")]
            #[kernel]
            pub unsafe fn $name(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
                let shared = shared_array![$ty; $per_warp * $warps];
                // SAFETY: the kernel's contract; the body says how much memory it needs a warp.
                unsafe {
                    $body::<$block, $warps, $unroll>(shared, out, inp, [rows as usize, cols as usize]);
                }
            }
        )*

        /// The kernels, for narrow rows first.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) const VARIANTS: &[super::Variant] = &[$(
            super::ladder::variant!($name, $widest, |rows, _| {
                Some(LaunchConfig::new(i32::try_from(rows).ok()?.cast_unsigned(), $block))
            }),
        )*];
    };
}

/// As [`block_per_row`], for `$body::<BLOCK, LANES, WARPS, VECTORS>`: `LANES * WARPS` threads hold a row.
macro_rules! resident {
    ($body:ident; $($name:ident $block:literal $lanes:literal $warps:literal $vectors:literal;)*) => {
        $(
            #[doc = concat!("`out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.\n\n",
                "A row is held by ", $warps, " x ", $lanes, " lanes, 4 * ", $vectors, " elements each. Launched on ",
                "blocks of ", $block, " threads, enough of them for `rows`.\n\n# Safety\nThe launch is as said; ",
                "`cols` is at most what the lanes hold; `out` holds `rows * cols` elements that nobody else uses; ",
                "`inp` holds at least as many.")]
            #[kernel]
            pub unsafe fn $name(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
                let shared = shared_array![f32x2; $warps];
                // SAFETY: the kernel's contract; the block has a pair for each warp of a row.
                unsafe {
                    $body::<$block, $lanes, $warps, $vectors>(shared, out, inp, [rows as usize, cols as usize]);
                }
            }
        )*

        /// The kernels, for narrow rows first.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) const VARIANTS: &[super::Variant] = &[$(
            super::ladder::variant!($name, 4 * $lanes * $warps * $vectors, |rows, cols| {
                if cols > 4 * $lanes * $warps * $vectors {
                    return None;
                }
                let blocks = rows.div_ceil($block / ($lanes * $warps));
                Some(LaunchConfig::new(i32::try_from(blocks).ok()?.cast_unsigned(), $block))
            }),
        )*];
    };
}

/// As [`resident`], for `$body::<THREADS, WARPS, VECTORS>`: a cluster of 2 to `$most` blocks of `THREADS` threads holds
/// a row. After them in the table stands the pair of kernels in `split`.
macro_rules! cluster_per_row {
    ($body:ident; $($name:ident $threads:literal $warps:literal $vectors:literal, $most:literal;)*) => {
        $(
            #[doc = concat!("`out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.\n\n",
                "A row is held by a cluster of blocks of ", $threads, " threads, 4 * ", $vectors, " elements each. ",
                "Launched on `rows` clusters of at most 16 blocks.\n\n# Safety\nThe launch is as said; `cols` is at ",
                "most what the threads of a cluster hold; `out` holds `rows * cols` elements that nobody else uses; ",
                "`inp` holds at least as many.")]
            #[kernel(min_arch = 90, max_threads = $threads)]
            pub unsafe fn $name(out: *mut f32, inp: &[f32], rows: u32, cols: u32) {
                let shared = shared_array![f32x2; $warps + 16];
                // SAFETY: the kernel's contract; the block has a pair for each of its warps, and of the cluster's blocks.
                unsafe { $body::<$threads, $warps, $vectors>(shared, out, inp, [rows as usize, cols as usize]) };
            }
        )*

        /// The ways, those for narrow rows first.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) const VARIANTS: &[super::Variant] = &[
            $(super::Variant {
                // Narrower rows fit a block of k8; of fewer blocks the pair makes more use of the device.
                narrowest: 16_385,
                least_blocks: 64,
                ..super::ladder::variant!($name, 4 * $threads * $vectors * $most, |rows, cols| {
                    let blocks = cols.div_ceil(4 * $threads * $vectors).next_power_of_two().max(2);
                    if blocks > 16 {
                        return None;
                    }
                    let grid = i32::try_from(rows.checked_mul(blocks)?).ok()?;
                    Some(LaunchConfig::new(grid.cast_unsigned(), $threads).with_cluster(blocks))
                })
            },)*
            split::VARIANT,
        ];
    };
}
