//! RMSNorm and LayerNorm; sums, cumulative sums, transposes and copies.

use crate::report::Subject;

/// The fields that subjects have in common.
pub const TURNS: Subject = Subject {
    name: "",
    title: "",
    about: "",
    is_ours: |_| false,
    peers: &[],
    tables: &[],
    rows: &["rows", "cols"],
    groups: &[],
    unit: "GB/s",
    work: |_| f64::NAN,
    bytes: |_| f64::NAN,
    cached: 100e6,
    peak: |_, peaks| peaks.tensor_tflops,
    check: |_, _| {},
    sources: &[],
    charts: &[],
    page: None,
    more: |_| String::new(),
    sections: |_| Ok(Vec::new()),
};

/// RMSNorm and LayerNorm.
pub const NORM: Subject = Subject {
    name: "norm",
    title: "RMSNorm and LayerNorm",
    about: "Rows of normal random numbers, with a weight, LayerNorm also with a bias; backward, the gradients of input, weight and bias. GB/s \
            counts what has to be moved at least: the input and the output, backward the input, its gradient and that of the output. The copy \
            moves as much. The contenders of a problem take turns.",
    is_ours: |entry| entry.name == entry.text("norm"),
    peers: &[("torch", "PyTorch"), ("compile", "torch.compile"), ("quack", "QuACK")],
    tables: &["norm"],
    work: norm_bytes,
    bytes: norm_bytes,
    sources: &["gpu-kernels/norm/src", "host/src/norm"],
    ..TURNS
};

fn norm_bytes(entry: &crate::report::Timed) -> f64 {
    let matrices = if entry.text("norm").ends_with("backward") { 3.0 } else { 2.0 };
    matrices * entry.element_bytes() * entry.number("rows") * entry.number("cols")
}

/// Sums, cumulative sums and transposes.
pub const AXIS: Subject = Subject {
    name: "axis",
    title: "Sums, cumulative sums, transposes and copies",
    about: "Matrices of normal random numbers. `rows` is one result for each row, `columns` one for each column. GB/s counts what has to be \
            moved at least: the matrix and the output. The copy moves as much: for a reduction it copies half of the matrix. The contenders of \
            a problem take turns.",
    is_ours: |entry| entry.name == entry.text("operation"),
    peers: &[("torch", "PyTorch"), ("compile", "torch.compile")],
    tables: &["operation"],
    work: axis_bytes,
    bytes: axis_bytes,
    sources: &["gpu-kernels/axis/src", "host/src/axis"],
    ..TURNS
};

fn axis_bytes(entry: &crate::report::Timed) -> f64 {
    let (rows, cols, operation) = (entry.number("rows"), entry.number("cols"), entry.text("operation"));
    let out = match operation.rsplit('-').next() {
        Some("rows") => rows,
        Some("columns") => cols,
        _ => rows * cols,
    };
    entry.element_bytes() * (rows * cols + out)
}
