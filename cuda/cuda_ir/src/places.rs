//! Finds operations that a back end may have no code for, and their source lines.

use std::collections::{HashMap, HashSet};

use super::IrError;
use super::module::{ItemKind, Module};

/// C library functions with an LLVM intrinsic, but without a GPU instruction, at least for `f64`.
const OF_C: &[&str] = &[
    "acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp10", "exp2", "frexp", "ldexp", "log", "log10",
    "log2", "modf", "pow", "powi", "sin", "sincos", "sinh", "tan", "tanh",
];

/// The unsupported operations of a module with debug info, as `FILE:LINE: OPERATION`.
pub fn of_unsupported(text: &str) -> Result<Vec<String>, IrError> {
    of(text, &suspicious)
}

/// The calls of `function`, in the same form.
pub fn of_calls(text: &str, function: &str) -> Result<Vec<String>, IrError> {
    let call = format!("@{function}(");
    of(text, &|line| {
        (line.contains(" call ") && line.contains(&call)).then(|| format!("a call of `{function}`"))
    })
}

fn of(text: &str, what: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, IrError> {
    let module = Module::parse(text)?;
    let nodes = nodes(&module);
    let functions = module.items.iter().filter(|item| matches!(item.kind, ItemKind::Function(_)));
    let mut found = Vec::new();
    for line in functions.flat_map(|function| function.text.lines().skip(1)) {
        let Some(operation) = what(line) else { continue };
        let place = reference(line, "!dbg ").and_then(|node| location(&nodes, node));
        found.extend(place.map(|place| format!("{place}: {operation}")));
    }
    Ok(found)
}

/// The loops in the crate's own code, as `FILE:LINE: a loop`.
pub fn of_loops(text: &str) -> Result<Vec<String>, IrError> {
    let module = Module::parse(text)?;
    let nodes = nodes(&module);
    let mut found = Vec::new();
    for function in module.items.iter().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        let mut labels = HashSet::new();
        for line in function.text.lines().skip(1) {
            if !line.starts_with(' ') {
                labels.extend(line.split_once(':').map(|(label, _)| label));
            } else if line.trim_start().starts_with("br ") {
                let targets = line.split("label %").skip(1);
                let targets = targets.filter_map(|rest| rest.split([',', ' ']).next());
                // A branch to an earlier block, in the order in which rustc writes blocks.
                if targets.into_iter().any(|target| labels.contains(target)) {
                    let place = reference(line, "!dbg ").and_then(|node| location(&nodes, node));
                    // Files of the standard library have absolute names.
                    let own = place.filter(|place| !place.starts_with('/'));
                    found.extend(own.map(|place| format!("{place}: a loop")));
                }
            }
        }
    }
    Ok(found)
}

/// The source lines of the kernels.
pub fn of_kernels(text: &str) -> Result<Vec<String>, IrError> {
    let module = Module::parse(text)?;
    let nodes = nodes(&module);
    let kernels = module.items.iter().filter(|item| item.is_kernel());
    let place = |header: &str| {
        let subprogram = nodes.get(reference(header, "!dbg ")?)?;
        line_of(&nodes, subprogram, subprogram)
    };
    Ok(kernels.filter_map(|kernel| place(kernel.header())).collect())
}

/// The metadata nodes by number.
fn nodes(module: &Module) -> HashMap<&str, &str> {
    module.items.iter().filter_map(|item| item.text.strip_prefix('!')?.split_once(" = ")).collect()
}

/// The operation of the instruction, if it may be a library call on a GPU.
fn suspicious(line: &str) -> Option<String> {
    let instruction = line.trim_start();
    let right = instruction.split_once(" = ").map_or(instruction, |(_, right)| right);
    let operation = right.split(", !dbg").next().unwrap_or(right);
    let opcode = right.split(' ').next().unwrap_or_default();
    let called = right.split_once("@llvm.").and_then(|(_, name)| name.split(['.', '(']).next());
    let is_wide = ["atomicrmw", "cmpxchg"].contains(&opcode) && operation.contains("i128");
    let is_memory = ["load", "store", "alloca", "bitcast", "ret", "br", "phi"].contains(&opcode);
    let is_quad = operation.contains("fp128") && !is_memory;
    let is_of_c = called.is_some_and(|name| OF_C.contains(&name));
    (is_wide || is_quad || is_of_c).then(|| format!("`{operation}`"))
}

/// The number after `keyword`, as in `scope: !7`.
fn reference<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = text.split_once(keyword)?.1.trim_start_matches('!');
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The source line of a location; for inlined code, in the function it was finally inlined into.
fn location(nodes: &HashMap<&str, &str>, number: &str) -> Option<String> {
    let mut node = nodes.get(number)?;
    while let Some(outer) = reference(node, "inlinedAt: ").and_then(|outer| nodes.get(outer)) {
        node = outer;
    }
    let mut scope = nodes.get(reference(node, "scope: ")?)?;
    // A block may name its file, too, but not every block does.
    while !scope.contains("file: ") {
        scope = nodes.get(reference(scope, "scope: ")?)?;
    }
    line_of(nodes, node, scope)
}

/// `FILE:LINE`, with the line of one node and the file of another.
fn line_of(nodes: &HashMap<&str, &str>, at: &str, of: &str) -> Option<String> {
    let line = at.split_once("line: ")?.1;
    let line = &line[..line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len())];
    let file = nodes.get(reference(of, "file: ")?)?.split_once("filename: \"")?.1;
    // rustc adds the unit's own name after the file's.
    let file = file.split('"').next()?.split("/@/").next()?;
    Some(format!("{file}:{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "define ptx_kernel void @k(double %x) !dbg !4 {\nstart:\n  %a = fpext double %x to fp128, !dbg !7\n  \
        %b = load fp128, ptr %p, !dbg !7\n  %c = call double @llvm.sin.f64(double %x), !dbg !8\n  ret void\n}\n\
        !1 = !DIFile(filename: \"src/lib.rs/@/unit\", directory: \"/d\")\n!2 = !DIFile(filename: \"core.rs\", directory: \"\")\n\
        !4 = distinct !DISubprogram(name: \"k\", scope: !5, file: !1, line: 3, type: !6)\n\
        !7 = !DILocation(line: 5, column: 3, scope: !4)\n!8 = !DILocation(line: 9, column: 1, scope: !9, inlinedAt: !10)\n\
        !9 = !DISubprogram(name: \"sin\", file: !2, line: 8)\n!10 = !DILocation(line: 6, column: 3, scope: !11)\n\
        !11 = !DILexicalBlock(scope: !4, line: 6)\n";

    #[test]
    fn operations_are_found_with_their_lines() {
        assert_eq!(
            of_unsupported(MODULE).unwrap(),
            [
                "src/lib.rs:5: `fpext double %x to fp128`",
                "src/lib.rs:6: `call double @llvm.sin.f64(double %x)`"
            ]
        );
    }

    #[test]
    fn loops_are_found_by_the_branches_back() {
        let branch = "\nbb1:\n  br i1 %c, label %bb2, label %bb1, !dbg !7\nbb2:\n  ret void\n}";
        let module = MODULE.replacen("\n  ret void\n}", &format!("\n  br label %bb1, !dbg !8{branch}"), 1);
        assert_eq!(of_loops(&module).unwrap(), ["src/lib.rs:5: a loop"]);
        assert!(of_loops(MODULE).unwrap().is_empty());
    }

    #[test]
    fn kernels_and_calls_are_found_too() {
        assert_eq!(of_kernels(MODULE).unwrap(), ["src/lib.rs:3"]);
        assert_eq!(of_calls(MODULE, "llvm.sin.f64").unwrap(), ["src/lib.rs:6: a call of `llvm.sin.f64`"]);
        assert!(of_calls(MODULE, "sin").unwrap().is_empty());
    }
}
