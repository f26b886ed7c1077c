//! The subjects of the pages.

use super::{Shown, Subject};

/// RMSNorm and LayerNorm.
pub const NORM: Subject = Subject {
    name: "norm",
    title: "RMSNorm and LayerNorm",
    about: "Rows of normal random numbers, with a weight, LayerNorm also with a bias; backward, the gradients of input, weight and bias. GB/s \
            counts what has to be moved at least: the input and the output, backward the input, its gradient and that of the output. The copy \
            moves as much.",
    peers: &[("torch", "PyTorch"), ("compile", "torch.compile"), ("quack", "QuACK")],
    tables: &["norm"],
    rows: &["rows", "cols"],
    unit: "GB/s",
    work: |entry| {
        let matrices = if entry.text("norm").ends_with("backward") { 3.0 } else { 2.0 };
        matrices * entry.element_bytes() * entry.number("rows") * entry.number("cols")
    },
    sources: &["gpu-kernels/norm/src", "host/src/norm"],
    shown: &[
        Shown {
            name: "RMSNorm, 32768 x 4096",
            at: &[("norm", "rms"), ("rows", "32768"), ("cols", "4096")],
            shared: &["norm"],
        },
        Shown {
            name: "its gradients",
            at: &[("norm", "rms-backward"), ("rows", "32768"), ("cols", "4096")],
            shared: &["norm"],
        },
    ],
};

/// Sums, cumulative sums and transposes.
pub const AXIS: Subject = Subject {
    name: "axis",
    title: "Sums, cumulative sums, transposes and copies",
    about: "Matrices of normal random numbers. `rows` is one result for each row, `columns` one for each column. GB/s counts what has to be \
            moved at least: the matrix and the output. The copy moves as much: for a reduction it copies half of the matrix.",
    peers: &[("torch", "PyTorch"), ("compile", "torch.compile")],
    tables: &["operation"],
    rows: &["rows", "cols"],
    unit: "GB/s",
    work: |entry| {
        let (rows, cols, operation) = (entry.number("rows"), entry.number("cols"), entry.text("operation"));
        let out = match operation.rsplit('-').next() {
            Some("rows") => rows,
            Some("columns") => cols,
            _ => rows * cols,
        };
        entry.element_bytes() * (rows * cols + out)
    },
    sources: &["gpu-kernels/axis/src", "host/src/axis"],
    shown: &[Shown {
        name: "sum of rows, 16384 x 8192",
        at: &[("operation", "sum-rows"), ("rows", "16384"), ("cols", "8192")],
        shared: &["operation"],
    }],
};

/// Attention, and its gradients.
pub const ATTENTION: Subject = Subject {
    name: "attention",
    title: "Attention",
    about: "Queries, keys and values of normal random numbers. TFLOP/s counts the two products, or the five of the \
            gradients (`backward`), half of them of a causal mask, and with a sliding window (`window`) those with its keys. Our gradients take seven \
            products, which are added in a fixed order. Errors are of the last queries of the last head, against f64: the root of the mean \
            square of the differences, over that of the results. `large`: Q is 16 times as large. `dominant`: one key of each head has nearly all \
            the weight.",
    peers: &[
        ("sdpa", "PyTorch"),
        ("flash", "FlashAttention 2"),
        ("efficient", "memory-efficient"),
        ("cudnn", "cuDNN"),
        ("flex", "FlexAttention"),
        ("fa3", "FlashAttention 3"),
    ],
    tables: &["head_size", "causal", "window", "backward", "inputs"],
    rows: &["batch", "queries", "length", "heads", "key_heads"],
    unit: "TFLOP/s",
    work: |entry| {
        let (length, window) = (entry.number("length"), entry.number("window"));
        let window = if window > 0.0 { window } else { length };
        let keys =
            if entry.number("causal") > 0.0 { window - window * window / length / 2.0 } else { length };
        let heads = entry.number("batch") * entry.number("heads") * entry.number("head_size");
        let products = if entry.number("backward") > 0.0 { 5.0 } else { 2.0 };
        2.0 * products * heads * entry.number("queries") * keys / 1e3
    },
    sources: &["gpu-kernels/attention/src", "host/src/attention"],
    shown: &[
        Shown {
            name: "attention, causal, 4096 keys, head size 128",
            at: &[
                ("batch", "4"),
                ("length", "4096"),
                ("heads", "16"),
                ("head_size", "128"),
                ("causal", "true"),
                ("backward", "false"),
            ],
            shared: &["head_size", "backward"],
        },
        Shown {
            name: "its gradients",
            at: &[
                ("batch", "4"),
                ("length", "4096"),
                ("heads", "16"),
                ("head_size", "128"),
                ("causal", "true"),
                ("backward", "true"),
            ],
            shared: &["head_size", "backward"],
        },
    ],
};
