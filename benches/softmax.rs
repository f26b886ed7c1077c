//! Times the softmax ladder and the operations that users call: `cargo bench softmax`.
//!
//! Ids are `softmax/<rung or operation>/<dtype>/<rows>x<cols>`. The operations are in all three types. A
//! softmax is timed at every shape, the others at a few shapes and at those of one token's logits. Two kernels that copy the
//! same number of bytes are timed too. The throughput counts one read and one write of every element (of the gradient too,
//! for a backward pass), however often a kernel reads it.
//!
//! Before anything is timed its output is checked: 64 rows from the first to the last, or all rows if there are fewer, are
//! compared with f64. A wrong result is reported instead of timed, and the run ends with an error.
//!
//! On a GPU:
//! - The time is the device's own, from two events around a batch with one synchronisation. A batch replays a CUDA graph of
//!   launches, so the time excludes the host's launch cost. One more replay runs before the first event and keeps the device
//!   busy while the batch is queued.
//! - The L2 cache is cold. The launches of a graph rotate through sets of buffers. There are at least two sets, and together
//!   they are at least four times the cache. A graph holds about 2 ms of work and each set at least once.
//! - A launch of over 10 ms is a graph of its own. The naive rung is omitted where it would take a tenth of a second.
//! - The operations run before the ladder. The naive rung computes for seconds, which takes the GPU to its power limit, so
//!   what runs next has lower clocks.
//!
//! Without a GPU all runs use the CPU executor, at small shapes and at 4096x1024: wall time, one set, warm caches. That
//! shows the effect of a change on the executor, and the speed of the operations on a CPU; `benches/peers/softmax_numpy.py`
//! times NumPy at 4096x1024.
//!
//! `cargo bench softmax -- --quick`, or `FERROWARP_BENCH_SHAPES=few` in the environment, selects a few shapes, `some` all
//! but half of the widths; `cargo bench softmax/k8` selects ids that match it, a regular expression; `-- --list` prints ids; `-- --test`
//! checks, and times each once. The medians go into `softmax.json` in criterion's folder.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrowarp_benches::contest::main::<ferrowarp_benches::softmax::Bench>()
}
