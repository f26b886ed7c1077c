//! Matrix multiplication with the code for compute capability 8.0, on a newer GPU.

use crate::pages::matmul;
use crate::pages::rows::TURNS;
use crate::report::Subject;

pub const MATMUL_80: Subject = Subject {
    name: "matmul80",
    title: "Matrix multiplication by the code for compute capability 8.0",
    about: "Ours is the PTX for compute capability 8.0 (`mma.sync`, `ldmatrix`, `cp.async`), which `FERROWARP_ARCH=compute_80` chooses: \
            the kernel that the operation's model picks for the shape, launched by a script. The peers use the same instructions: the \
            fastest of all algorithms, tiles, stages and splits of cuBLASLt whose kernels' names are those of 8.x, and the kernel of \
            Triton's tutorial, compiled for 8.0 and tuned over seven configurations. A layout names the axis of A, then of B, whose \
            elements are neighbours. The contenders of a problem take turns. Of `f32`, the peers use the FP32 units, and ours takes three \
            products of TF32. Triton cuts `f32` to TF32, the others round. An error is the root of the mean square of the differences from \
            `f64`, over that of the results. `benches/peers/matmul.py --random 40 --peers ampere,triton80` times the operation itself at \
            random shapes, also batches and epilogues. The kernels were timed in the state just before the commit.",
    is_ours: |entry| entry.name == "matmul",
    peers: &[("ampere", "cuBLASLt's `ampere_*`"), ("triton80", "Triton for sm80")],
    rows: &["m", "n", "k", "layout", "matrices", "ending"],
    groups: &[
        ("few rows, up to 64", |entry| entry.number("m") <= 64.0),
        ("sides from 512", |entry| {
            entry.number("m").min(entry.number("n")) >= 512.0 && entry.number("matrices") == 1.0
        }),
        ("several matrices", |entry| entry.number("matrices") > 1.0),
        ("long sums, small sides", |entry| {
            entry.number("k") >= 4096.0 && entry.number("m").max(entry.number("n")) <= 1024.0
        }),
        ("with an epilogue", |entry| entry.text("ending") != "plain"),
        ("A and B along k", |entry| entry.text("layout") == "kk"),
        ("both by rows", |entry| entry.text("layout") == "kn"),
        ("both as transposes", |entry| entry.text("layout") == "mk"),
        ("A as its transpose, B by rows", |entry| entry.text("layout") == "mn"),
    ],
    unit: "TFLOP/s",
    work: |entry| (matmul::MATMUL.work)(entry) * entry.number("matrices"),
    bytes: |entry| (matmul::MATMUL.bytes)(entry) * entry.number("matrices"),
    cached: matmul::MATMUL.cached,
    peak: matmul::MATMUL.peak,
    sources: &["gpu-kernels/matmul/src", "host/src/matmul"],
    ..TURNS
};
