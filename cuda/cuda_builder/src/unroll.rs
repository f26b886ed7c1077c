//! Keeps libNVVM from unrolling a loop into a long chain of loops.
//!
//! libNVVM 13.5.37 unrolls a loop of 25 iterations around one that ends early, by data or by a failed bounds check, into a
//! chain of 25 loops. The number of iterations of each depends on where the one before ended, and the time to analyse that
//! doubles with each loop: 2 seconds for 16 loops, and no end for 25 (`tests/modules/chain.ll`). LLVM's analyses identify
//! these loops, and libNVVM obeys `llvm.loop.unroll.disable`.

use std::collections::{HashMap, HashSet};

/// The analyses that [`without_long_chains`] reads, after the passes.
pub(crate) const PASSES: &str = "function(print<loops>,print<scalar-evolution>)";
/// Restricts their output to loops.
pub(crate) const FLAG: &str = "-scalar-evolution-classify-expressions=0";

/// The longest chain of loops that libNVVM may create from a nest. Up to 12 cost no time.
const LONGEST_CHAIN: u64 = 12;

/// A loop as LLVM describes it.
#[derive(Default)]
struct Loop {
    header: String,
    latches: Vec<String>,
    inner: Vec<Loop>,
}

/// The known exits of a loop.
#[derive(Default)]
struct Exits {
    /// The smallest known constant count of an exit.
    constant: Option<u64>,
    /// Whether there are several exits with data-dependent counts.
    is_unpredictable: bool,
}

/// Marks the outer loops of long chains in the module `text` as not to be unrolled; `analyses` is the output of [`PASSES`]
/// for it.
pub(crate) fn without_long_chains(text: String, analyses: &str) -> String {
    let mut latches: HashMap<&str, HashSet<String>> = HashMap::new();
    let exits = exits(analyses);
    for (function, loops) in loops(analyses) {
        let (mut found, known) = (HashSet::new(), exits.get(function));
        let known = |header: &str| known.and_then(|exits| exits.get(header));
        for nest in &loops {
            chain(nest, &known, &mut found);
        }
        if !found.is_empty() {
            latches.insert(function, found);
        }
    }
    if latches.is_empty() { text } else { marked(&text, &latches) }
}

/// The number of loops of unknown length in the chain that the loop becomes. A loop with too many iterations is kept, and
/// its latches go to `found`.
fn chain<'a>(nest: &Loop, known: &impl Fn(&str) -> Option<&'a Exits>, found: &mut HashSet<String>) -> u64 {
    let inner: u64 = nest.inner.iter().map(|inner| chain(inner, known, found)).sum();
    let Some(exits) = known(&nest.header) else { return inner };
    let unknown = u64::from(exits.is_unpredictable);
    let Some(passed) = exits.constant.filter(|passed| !nest.inner.is_empty() || *passed < LONGEST_CHAIN)
    else {
        return inner + unknown;
    };
    let unrolled = inner.saturating_mul(passed.saturating_add(1));
    if unrolled <= LONGEST_CHAIN {
        return unrolled;
    }
    found.extend(nest.latches.iter().cloned());
    inner
}

/// The outermost loops of each function, from `print<loops>`.
fn loops(analyses: &str) -> Vec<(&str, Vec<Loop>)> {
    let mut functions: Vec<(&str, Vec<Loop>)> = Vec::new();
    for line in analyses.lines() {
        if let Some(function) = of_function(line, "Loop info") {
            functions.push((function, Vec::new()));
        } else if let Some((depth, blocks)) =
            line.trim_start().strip_prefix("Loop at depth ").and_then(|rest| rest.split_once(" containing: "))
            && let (Ok(depth), Some((_, outermost))) = (depth.parse::<usize>(), functions.last_mut())
        {
            insert(outermost, depth, read_loop(blocks));
        }
    }
    functions
}

/// Inserts a loop after the loop that contains it.
fn insert(siblings: &mut Vec<Loop>, depth: usize, new: Loop) {
    match siblings.last_mut() {
        Some(outer) if depth > 1 => insert(&mut outer.inner, depth - 1, new),
        _ => siblings.push(new),
    }
}

/// `%bb3<header>,%bb5<exiting>,%bb1<latch><exiting>`
fn read_loop(blocks: &str) -> Loop {
    let named = |block: &str| block.split('<').next().unwrap_or_default().trim_start_matches('%').to_owned();
    let with = |role: &'static str| blocks.split(',').filter(move |block| block.contains(role)).map(named);
    Loop {
        header: with("<header>").next().unwrap_or_default(),
        latches: with("<latch>").collect(),
        inner: Vec::new(),
    }
}

/// The exits of each function's loops by header, from `print<scalar-evolution>`.
fn exits(analyses: &str) -> HashMap<&str, HashMap<String, Exits>> {
    let mut functions: HashMap<&str, HashMap<String, Exits>> = HashMap::new();
    let (mut function, mut header) = ("", String::new());
    for line in analyses.lines() {
        if let Some(name) = of_function(line, "Printing analysis 'Scalar Evolution Analysis'") {
            function = name;
        }
        let (of_loop, said) = match line.strip_prefix("Loop %").and_then(|rest| rest.split_once(": ")) {
            Some((name, said)) => {
                header = name.to_owned();
                (true, said)
            }
            None => (false, line),
        };
        let count = match said.trim_start().strip_prefix("exit count for ") {
            Some(rest) if !of_loop => rest.split_once(": ").map(|(_, count)| count),
            _ if of_loop => said.strip_prefix("backedge-taken count is "),
            _ => continue,
        };
        let exits = functions.entry(function).or_default().entry(header.clone()).or_default();
        exits.is_unpredictable |= of_loop && said.starts_with("<multiple exits> Unpredictable");
        // `i64 24`
        let constant = count.and_then(|count| count.split_once(' ')?.1.parse::<u64>().ok());
        exits.constant = exits.constant.into_iter().chain(constant).min();
    }
    functions
}

/// The name in `INFO for function 'NAME':`.
fn of_function<'a>(line: &'a str, info: &str) -> Option<&'a str> {
    line.strip_prefix(info)?.strip_prefix(" for function '")?.strip_suffix("':")
}

/// Adds `llvm.loop.unroll.disable` to the branches that end these blocks of these functions.
fn marked(text: &str, latches: &HashMap<&str, HashSet<String>>) -> String {
    let number = |line: &str| line.strip_prefix('!')?.split_once(" = ")?.0.parse::<u64>().ok();
    let first = text.lines().filter_map(number).max().map_or(0, |last| last + 1);
    let mut next = first + 1;
    let mut out = String::with_capacity(text.len() + 1000);
    let (mut of_function, mut block) = (None, "");
    for line in text.lines() {
        out.push_str(line);
        if line.starts_with("define ") {
            let name = line.split_once('@').and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name);
            of_function = name.and_then(|name| latches.get(name.trim_matches('"')));
            block = "";
        } else if !line.starts_with([' ', '\t']) {
            block = line.split_once(':').map_or("", |(label, _)| label);
        } else if let Some(latches) = of_function
            && latches.contains(block)
            && line.trim_start().starts_with("br ")
            && !line.contains("!llvm.loop")
        {
            out.push_str(&format!(", !llvm.loop !{next}"));
            next += 1;
        }
        out.push('\n');
    }
    out.push_str(&format!("!{first} = !{{!\"llvm.loop.unroll.disable\"}}\n"));
    for node in first + 1..next {
        out.push_str(&format!("!{node} = distinct !{{!{node}, !{first}}}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::backend::Compiler;
    use crate::llvm::Llvm;
    use crate::nvvm::{Nvvm, NvvmOptions};
    use crate::watch::Watch;
    use crate::{Backend, CudaBuilder, CudaBuilderError, NvvmArch, libnvvm, toolchain};

    const TEXT: &str = "define ptx_kernel void @k(ptr %a) {\nstart:\n  br label %bb3\n\n\
        bb1:  ; preds = %bb6\n  br i1 %c, label %bb11, label %bb3, !dbg !7\n\nbb6:\n  br i1 %d, label %bb1, label %bb6\n\n\
        bb11:\n  ret void\n}\n\ndefine void @other() {\nbb1:\n  br label %bb1\n}\n!7 = !{i32 1}\n";

    fn analyses(passed: u64, inner: &str) -> String {
        format!(
            "Loop info for function 'k':\n\
             Loop at depth 1 containing: %bb3<header>,%bb6<exiting>,%bb1<latch><exiting>\n    \
             Loop at depth 2 containing: %bb6<header><latch><exiting>\n\
             Printing analysis 'Scalar Evolution Analysis' for function 'k':\n\
             Determining loop execution counts for: @k\n\
             Loop %bb6: {inner}\n  exit count for bb6: ***COULDNOTCOMPUTE***\n\
             Loop %bb6: constant max backedge-taken count is i64 64\n  symbolic max exit count for bb6: i64 64\n\
             Loop %bb3: <multiple exits> Unpredictable backedge-taken count.\n  \
             exit count for bb6: ***COULDNOTCOMPUTE***\n  exit count for bb1: i64 {passed}\n\
             Loop %bb3: constant max backedge-taken count is i64 {passed}\n"
        )
    }

    #[test]
    fn the_outer_loop_of_a_long_chain_is_marked() {
        let out = without_long_chains(
            TEXT.to_owned(),
            &analyses(24, "<multiple exits> Unpredictable backedge-taken count."),
        );
        assert!(out.contains("label %bb3, !dbg !7, !llvm.loop !9\n"), "{out}");
        assert_eq!(out.matches("!llvm.loop").count(), 1, "{out}");
        let nodes = "!8 = !{!\"llvm.loop.unroll.disable\"}\n!9 = distinct !{!9, !8}\n";
        assert!(out.ends_with(nodes), "{out}");
    }

    #[test]
    fn short_chains_and_loops_of_known_length_stay_as_they_are() {
        let unpredictable = "<multiple exits> Unpredictable backedge-taken count.";
        for (passed, inner) in [
            (11, unpredictable),
            (24, "Unpredictable backedge-taken count."),
            (24, "backedge-taken count is i64 9"),
        ] {
            let out = without_long_chains(TEXT.to_owned(), &analyses(passed, inner));
            assert_eq!(out, TEXT, "{passed} {inner}");
        }
        assert_eq!(without_long_chains(TEXT.to_owned(), "no analyses"), TEXT);
    }

    /// libNVVM and LLVM's tools, found as in a build.
    fn tools() -> (Nvvm, Llvm) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tools = CudaBuilder::tools_dir_in(&folder.ancestors().nth(2).unwrap().join("target"));
        Compiler::fetch(Backend::Nvvm, &tools, &|_| {}).unwrap();
        (libnvvm::find(&tools).unwrap().0, toolchain::find(folder).unwrap().llvm)
    }

    #[test]
    fn libnvvm_ends_on_a_chain_that_is_marked_and_is_stopped_on_one_that_is_not() {
        let arch = NvvmArch::Compute90;
        let (nvvm, llvm) = tools();
        let options = ["-arch=compute_90", "-nvvm-latest", "-opt=3"].map(str::to_owned);
        let options = NvvmOptions(options.to_vec());
        let compile = |module: &str| {
            let work = || nvvm.compile(module.as_bytes(), arch, &options);
            Watch::default().compiling("the kernel chain".to_owned(), 3, Duration::from_secs(2), work)
        };
        let module = include_str!("../tests/modules/chain.ll");
        let error = compile(module).unwrap_err();
        assert!(matches!(error, CudaBuilderError::CompilerTimedOut { .. }), "{error}");
        let prepared = llvm.prepare(module.as_bytes().to_vec(), arch).unwrap();
        assert!(prepared.contains("llvm.loop.unroll.disable"), "{prepared}");
        assert!(compile(&prepared).unwrap().contains(".entry chain"));
    }
}
