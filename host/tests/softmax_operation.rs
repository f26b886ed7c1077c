//! The softmax that users call: every kernel of it against the f64 oracle, on the executor and as PTX, and the choice.

#[path = "softmax_operation/api.rs"]
mod api;
#[path = "softmax_operation/cases.rs"]
mod cases;
#[path = "softmax_operation/choices.rs"]
mod choices;
#[path = "common/emulated.rs"]
mod emulated;
#[path = "softmax_operation/kernels.rs"]
mod kernels;
#[path = "softmax_operation/ptx.rs"]
mod ptx;
#[path = "softmax_operation/random.rs"]
mod random;
#[path = "common/rows.rs"]
mod rows;
