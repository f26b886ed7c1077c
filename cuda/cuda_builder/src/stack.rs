//! Finds kernels with a stack of unknown size at compile time.
//!
//! The PTX ends in a comment for each such kernel, which the host reads: it must then set the stack size per thread in the
//! driver.

use std::collections::{HashMap, HashSet};
use std::fmt;

use cuda_ir::ptx::Ptx;

/// The start of such a comment, before `KERNEL: CAUSE`.
const NOTE: &str = "// ferrowarp: unbounded stack: ";

/// The start of the cause if a kernel recurses.
const RECURSION: &str = "recursion through ";

/// A kernel with a stack of unknown size at compile time, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnboundedStack {
    /// The kernel's symbol.
    pub kernel: String,
    /// Such as ``recursion through `depth` ``.
    pub cause: String,
}

impl fmt::Display for UnboundedStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stack of the kernel {} has no size known in advance: {}", self.kernel, self.cause)
    }
}

/// Appends a comment for each kernel with an unbounded stack. If one of them recurses, every function becomes visible to
/// other modules.
///
/// ptxas 13.0.88 propagates constants into and out of functions that no other module sees. At levels 1 to 3 it crashes if
/// that removes the only call of a recursive function. It does not change visible functions; 13.5.37 does not have this bug.
pub(crate) fn note(mut ptx: String) -> String {
    let unbounded = find(&Ptx::parse(&ptx));
    if unbounded.iter().any(|stack| stack.cause.starts_with(RECURSION)) {
        ptx = with_visible_functions(&ptx);
    }
    for UnboundedStack { kernel, cause } in unbounded {
        if !ptx.ends_with('\n') {
            ptx.push('\n');
        }
        ptx.push_str(&format!("{NOTE}{kernel}: {cause}\n"));
    }
    ptx
}

/// Adds `.visible` to each declaration and definition of a function at the start of a line.
fn with_visible_functions(ptx: &str) -> String {
    let visible = |line| if str::starts_with(line, ".func") { [".visible ", line] } else { ["", line] };
    ptx.split_inclusive('\n').flat_map(visible).collect()
}

/// Reads the comments of [`note`].
pub(crate) fn read(ptx: &str) -> Vec<UnboundedStack> {
    let notes = ptx.lines().rev().map_while(|line| line.strip_prefix(NOTE)?.split_once(": "));
    let stack = |(kernel, cause): (&str, &str)| UnboundedStack { kernel: kernel.into(), cause: cause.into() };
    let mut found: Vec<UnboundedStack> = notes.map(stack).collect();
    found.reverse();
    found
}

/// The kernels that run a function that calls itself, directly or not, or that calls a function pointer. Panics do not
/// count, since they end in a trap.
pub(crate) fn find(ptx: &Ptx) -> Vec<UnboundedStack> {
    let calls: HashMap<&str, Vec<&str>> = ptx
        .functions
        .iter()
        .filter(|function| !function.statements.is_empty())
        .map(|function| (&*function.name, function.callees().collect()))
        .collect();
    let unbounded = |kernel: &str| {
        let run = ptx.run_by(kernel);
        let indirect = run
            .iter()
            .find(|name| calls.get(*name).is_some_and(|all| all.iter().any(|c| c.starts_with('%'))));
        let returns: HashSet<&str> = run.iter().copied().collect();
        let recursive = || run.iter().find(|name| reaches(name, name, &calls, &returns));
        match (recursive(), indirect) {
            (Some(name), _) => Some(format!("{RECURSION}`{name}`")),
            (None, Some(name)) => Some(format!("a call through a pointer in `{name}`")),
            (None, None) => None,
        }
    };
    let of_kernel = |name: &str| Some(UnboundedStack { kernel: name.to_owned(), cause: unbounded(name)? });
    ptx.entries().filter_map(|entry| of_kernel(&entry.name)).collect()
}

/// Whether `from` calls `to`, directly or through functions in `run`.
fn reaches(from: &str, to: &str, calls: &HashMap<&str, Vec<&str>>, run: &HashSet<&str>) -> bool {
    let (mut seen, mut open) = (HashSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        for callee in calls.get(name).into_iter().flatten() {
            if *callee == to {
                return true;
            }
            if run.contains(callee) && seen.insert(*callee) {
                open.push(callee);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(ptx: &str) -> Vec<String> {
        let noted = note(ptx.to_owned());
        assert!(noted.starts_with(ptx) || noted.starts_with(&with_visible_functions(ptx)));
        assert_eq!(read(&noted), find(&Ptx::parse(ptx)));
        read(&noted).into_iter().map(|stack| format!("{}: {}", stack.kernel, stack.cause)).collect()
    }

    #[test]
    fn recursion_by_way_of_others_is_found() {
        let ptx = ".func a() { call.uni b, (p); ret; } .func b() { call.uni (r), \n a, \n(p); ret; }\n\
                   .func once() { ret; } .entry k() { call.uni a, (p); } .entry fine() { call.uni once, (p); }";
        assert_eq!(causes(ptx), ["k: recursion through `a`"]);
    }

    #[test]
    fn functions_are_visible_where_one_recurses() {
        let ptx = ".func a()\n;\n.visible .func b()\n;\n.func a() {\n call.uni a, (p);\n}\n.entry k() { call.uni a, (p); }\n";
        let noted = note(ptx.to_owned());
        assert_eq!(
            noted.matches("\n.visible .func a()").count() + usize::from(noted.starts_with(".visible")),
            2
        );
        assert_eq!(noted.matches(".visible .visible").count(), 0);
        let bounded = ptx.replace("call.uni a, (p);\n", "");
        assert_eq!(note(bounded.clone()), bounded);
    }

    #[test]
    fn a_call_through_a_pointer_is_found() {
        let ptx = ".func f() { call (r), %rd1, (p), prototype_0; ret; } .entry k() { call.uni f, (p); }\n\
                   .func g() { call %rd2, prototype_1; ret; } .entry l() { call.uni g; }";
        assert_eq!(causes(ptx), ["k: a call through a pointer in `f`", "l: a call through a pointer in `g`"]);
    }

    #[test]
    fn panics_do_not_count() {
        let ptx = ".func panics() .noreturn { call.uni panics, (p); } .entry k() { call.uni panics, (p); }";
        assert!(causes(ptx).is_empty());
    }
}
