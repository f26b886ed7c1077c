//! The list of operations. Benchmarks and reports iterate over it, so only listed operations can be published.

/// An operation on the rows of a matrix.
///
/// ```
/// use ferrowarp::softmax::OPERATIONS;
///
/// let softmax = OPERATIONS.iter().find(|operation| operation.name == "softmax").unwrap();
/// assert_eq!((softmax.matrices, softmax.writes_matrix), (2, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name in benchmarks and reports.
    pub name: &'static str,
    /// The public functions of this module that compute it; a method is named after its file, as in `kernel_choice::run`.
    pub functions: &'static [&'static str],
    /// The number of matrices of the input's shape that it must read or write at least once.
    pub matrices: usize,
    /// Whether it writes a matrix of the input's shape. If not, it only reads memory, which is faster than a copy.
    pub writes_matrix: bool,
}

/// Every operation, whatever features are enabled, in the order of tables.
pub const OPERATIONS: [Operation; 7] = [
    operation(
        "softmax",
        &[
            "softmax",
            "softmax_in_place",
            "softmax_to_buffer",
            "softmax_of_slice",
            "softmax_of_array",
            "kernel_choice::run",
            "kernel_choice::run_in_place",
        ],
        2,
    ),
    // The same functions, with `Options::log`.
    operation("log_softmax", &[], 2),
    operation("backward", &["softmax_backward", "softmax_backward_in_place"], 3),
    operation(
        "cross_entropy",
        &["cross_entropy::run", "cross_entropy_of_slice", "cross_entropy_of_array"],
        2,
    ),
    operation("top_k", &["softmax_top_k"], 1),
    operation("sample", &["sample", "sample_with_log_probabilities"], 1),
    // The same functions, with `Sampling::top_p`.
    operation("sample_top_p", &[], 1),
];

const fn operation(name: &'static str, functions: &'static [&'static str], matrices: usize) -> Operation {
    Operation { name, functions, matrices, writes_matrix: matrices > 1 }
}
