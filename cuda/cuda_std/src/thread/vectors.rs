//! Positions without the feature `glam`: the parts of glam's vectors that this crate and most kernels use.

/// A position in two dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct UVec2 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
}

/// A position in three dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct UVec3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl UVec2 {
    /// Creates a position from its coordinates.
    #[inline(always)]
    pub const fn new(x: u32, y: u32) -> UVec2 {
        UVec2 { x, y }
    }

    /// Adds a coordinate along z.
    #[inline(always)]
    pub const fn extend(self, z: u32) -> UVec3 {
        UVec3::new(self.x, self.y, z)
    }
}

impl UVec3 {
    /// The origin.
    pub const ZERO: UVec3 = UVec3::new(0, 0, 0);

    /// Creates a position from its coordinates.
    #[inline(always)]
    pub const fn new(x: u32, y: u32, z: u32) -> UVec3 {
        UVec3 { x, y, z }
    }

    /// Returns the coordinates along x, y and z.
    #[inline(always)]
    pub const fn to_array(&self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}
