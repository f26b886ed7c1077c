//! What the benches have in common: shapes, buffers that rotate, timing by graphs, training that is timed, and the file of
//! medians.

pub mod matrices;
pub mod mlp;
pub mod op;
pub mod operations;
pub mod results;
pub mod rotation;
pub mod shapes;
