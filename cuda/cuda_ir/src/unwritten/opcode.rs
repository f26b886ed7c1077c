//! How an instruction uses its first operand, and its successors.

/// The use of the first operand, if it is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Written,
    Read,
    Both,
}

/// The successor of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Following,
    /// The label that is its only operand.
    Branch,
    /// One of a list of labels, its last operand.
    BranchTable,
    Nowhere,
}

pub(super) fn first(opcode: &str) -> First {
    let has = |part: &str| opcode.split('.').any(|one| one == part);
    match root(opcode) {
        // `barrier.cta.red` and `bar.red` have a result; the first operand of other barriers is their number.
        "bar" | "barrier" if !has("red") => First::Read,
        "tcgen05" if !has("ld") => First::Read,
        "nanosleep" | "brx" | "stackrestore" | "setmaxnreg" | "st" | "red" | "cp" | "prefetch" => First::Read,
        // Asynchronous matrix multiplications add to their first operand.
        "wgmma" => First::Both,
        _ => First::Written,
    }
}

pub(super) fn next(opcode: &str) -> Next {
    match root(opcode) {
        "bra" => Next::Branch,
        "brx" => Next::BranchTable,
        "ret" | "exit" | "trap" => Next::Nowhere,
        _ => Next::Following,
    }
}

fn root(opcode: &str) -> &str {
    opcode.split('.').next().unwrap_or_default()
}
