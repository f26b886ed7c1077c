//! The softmax that users call: every kernel of it against the f64 oracle, on the executor and as PTX, and the choice.

mod api;
mod cases;
mod choices;
mod kernels;
mod ptx;
mod random;
