//! Extents: numbers of blocks and threads.

use core::fmt;

/// Extents of a grid (in blocks) or of a block (in threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Extent of the fastest-varying axis.
    pub x: u32,
    /// Extent of the second axis.
    pub y: u32,
    /// Extent of the third axis.
    pub z: u32,
}

impl Dim3 {
    /// Extents of all three axes.
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// Number of elements, the product of the extents.
    pub const fn volume(self) -> u64 {
        (self.x as u64).saturating_mul(self.y as u64).saturating_mul(self.z as u64)
    }

    /// The coordinates of the element with the linear index `index`, x fastest.
    pub(crate) const fn unravel(self, index: u64) -> Dim3 {
        let (x, y) = (self.x as u64, self.y as u64);
        Dim3 { x: (index % x) as u32, y: (index / x % y) as u32, z: (index / (x * y)) as u32 }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::new(x, y, z)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

/// The shape of a launch: its blocks and threads, the dynamic shared memory of each block, and the blocks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Neighbouring blocks along x that run at the same time and access each other's shared memory: a thread-block
    /// cluster (CUDA programming guide, "thread block clusters"). 1 means no cluster.
    pub cluster: u32,
    /// Whether the kernel may begin before the one queued before it has ended:
    /// [`Self::with_programmatic_stream_serialization`].
    pub programmatic_stream_serialization: bool,
}

impl LaunchConfig {
    /// `grid` blocks of `block` threads, without dynamic shared memory and without clusters.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            shared_bytes: 0,
            cluster: 1,
            programmatic_stream_serialization: false,
        }
    }

    /// Enough one-dimensional blocks of `block` threads to cover `elements`; at least one block.
    ///
    /// More than 2^32 threads are refused at the launch, because [`thread::index_1d`](crate::thread::index_1d) has 32 bits:
    /// let each thread take several elements.
    ///
    /// ```
    /// use cuda_std::launch::{LaunchConfig, Limits};
    ///
    /// let is_refused = |elements| Limits::default().check("fill", &LaunchConfig::cover(elements, 256)).is_err();
    /// assert!(!is_refused(1 << 32) && is_refused((1 << 32) + 1));
    /// ```
    pub fn cover(elements: usize, block: u32) -> Self {
        let blocks = elements.div_ceil(block.max(1) as usize).max(1);
        let is_counted = (blocks as u64).saturating_mul(block.into()) <= 1 << 32;
        Self::new(if is_counted { blocks as u32 } else { Self::UNCOUNTED }, block)
    }

    /// The grid of [`cover`](Self::cover) that the check against a device's limits refuses.
    pub(super) const UNCOUNTED: u32 = u32::MAX;

    /// The same launch with `bytes` of dynamic shared memory per block.
    pub fn with_shared_bytes(self, bytes: u32) -> Self {
        Self { shared_bytes: bytes, ..self }
    }

    /// The same launch in clusters of `blocks` blocks along x, which must divide the grid.
    pub fn with_cluster(self, blocks: u32) -> Self {
        Self { cluster: blocks, ..self }
    }

    /// The same launch, but it may begin while the one queued before it on its stream runs, once all blocks of that one have
    /// called [`grid::launch_dependents`](crate::grid::launch_dependents) or ended (CUDA programming guide, "programmatic
    /// dependent launch"). The kernel calls [`grid::wait_for_dependencies`](crate::grid::wait_for_dependencies) before it
    /// reads what earlier work writes, or writes what earlier work uses. It takes such memory only as raw pointers.
    ///
    /// Devices below compute capability 9.0 and the CPU run the launch after the previous one, like any other.
    ///
    /// ```
    /// use cuda_std::launch::LaunchConfig;
    ///
    /// let config = LaunchConfig::cover(1000, 128).with_programmatic_stream_serialization();
    /// assert!(config.programmatic_stream_serialization);
    /// ```
    pub fn with_programmatic_stream_serialization(self) -> Self {
        Self { programmatic_stream_serialization: true, ..self }
    }
}
