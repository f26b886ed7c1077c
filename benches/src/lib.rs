//! What the benches have in common: the device they run on, and the shapes that suit it.

use ferrowarp::device::{Device, DeviceChoice, open};

/// A matrix that a softmax runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Independent rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
}

/// Shapes for a GPU: at 4096 rows the widths of the well-known charts.
const GPU_SHAPES: [Shape; 4] = [
    Shape { rows: 4096, cols: 256 },
    Shape { rows: 4096, cols: 1024 },
    Shape { rows: 4096, cols: 4096 },
    Shape { rows: 4096, cols: 12_672 },
];

/// Shapes for the CPU executor, whose figures say what a change did to it and nothing about a GPU.
const CPU_SHAPES: [Shape; 3] =
    [Shape { rows: 64, cols: 10 }, Shape { rows: 64, cols: 100 }, Shape { rows: 16, cols: 333 }];

/// The device of a bench run and its shapes; says on standard error which it is and why.
///
/// # Errors
/// A GPU is there, but its PTX is not, or it cannot be opened.
pub fn device_and_shapes() -> Result<(Device, &'static [Shape]), ferrowarp::device::DeviceError> {
    let (device, why) = open(DeviceChoice::Auto)?;
    eprintln!("{why}");
    let shapes: &[Shape] = if device.is_cuda() { &GPU_SHAPES } else { &CPU_SHAPES };
    Ok((device, shapes))
}
