//! Makes the threads of a warp wait for each other after calls from which they may return one after another.
//!
//! ptxas assumes that threads that call a function together also return together. After the call it changes uniform
//! registers in place, which a warp shares: `UIADD3 UR40, UR40, 0x60`. If the threads return in groups, each group executes
//! this. (ptxas 13.0.88 and 13.5.37, at every level.) A recursive function splits the threads into groups, because each
//! frame reuses the convergence barrier at which threads of other frames wait:
//!
//! ```text
//! depth: BMOV.32.CLEAR R19, B6;  BSSY B6, ...;  @!P0 BRA L;  ...  CALL depth;  L: BSYNC B6;  BMOV.32 B6, R19;  RET
//! ```
//!
//! A `bar.warp.sync` after the call would reunite the groups, but ptxas removes it as redundant, unless only some threads
//! may reach it. So the call and the `bar.warp.sync` are placed under a condition that always holds.
//!
//! No such wait is added to recursive functions themselves: on an H100 it deadlocks, because threads of an outer frame wait
//! at the same instruction as threads of an inner one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::bodies::{edit_bodies, instruction};
use crate::ptx::{Ptx, callee};

/// Adds a wait after each call from which the threads of a warp may return one after another.
pub fn after_calls(ptx: &str) -> Cow<'_, str> {
    let parsed = Ptx::parse(ptx);
    let calls = calls(&parsed, ptx);
    let recursive: HashSet<&str> = calls.keys().copied().filter(|name| calls_itself(name, &calls)).collect();
    let scattering = scattering(&recursive, &calls);
    if scattering.is_empty() {
        return Cow::Borrowed(ptx);
    }
    edit_bodies(ptx, |name, body| {
        let scatters = |callee: &str| scattering.contains(callee) || is_register(callee);
        if recursive.contains(name) { None } else { edit(body, scatters) }
    })
}

/// The callees of each function that returns: symbols and registers, and for a register all functions that it may hold.
fn calls<'a>(parsed: &'a Ptx, text: &'a str) -> HashMap<&'a str, Vec<&'a str>> {
    let functions = parsed.functions.iter().filter(|f| !f.statements.is_empty() && !f.is_noreturn);
    let mut calls: HashMap<&str, Vec<&str>> = functions.map(|f| (&*f.name, f.callees().collect())).collect();
    let is_symbol = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let words = |statement: &'a str| statement.split(move |c: char| !is_symbol(c));
    // A function's address is taken where its name is neither in a call nor in its own header.
    let others = text
        .split([';', '{', '}'])
        .filter(|statement| words(statement).all(|word| !matches!(word, "call" | "func" | "entry")));
    let taken: Vec<&str> = others.flat_map(words).filter(|word| calls.contains_key(word)).collect();
    for callees in calls.values_mut().filter(|callees| callees.iter().any(|callee| is_register(callee))) {
        callees.extend(&taken);
    }
    calls
}

/// Whether the function calls itself, directly or not.
fn calls_itself(name: &str, calls: &HashMap<&str, Vec<&str>>) -> bool {
    let (mut seen, mut open) = (HashSet::new(), vec![name]);
    while let Some(caller) = open.pop() {
        for callee in calls.get(caller).into_iter().flatten() {
            if *callee == name {
                return true;
            }
            if seen.insert(*callee) {
                open.push(callee);
            }
        }
    }
    false
}

/// The functions from which the threads of a warp may return one after another: those that call themselves or a register,
/// and their callers.
fn scattering<'a>(recursive: &HashSet<&'a str>, calls: &HashMap<&'a str, Vec<&'a str>>) -> HashSet<&'a str> {
    let mut found = recursive.clone();
    loop {
        let scatters = |callee: &&str| is_register(callee) || found.contains(callee);
        let callers =
            calls.iter().filter(|(name, callees)| !found.contains(*name) && callees.iter().any(scatters));
        let more: Vec<&str> = callers.map(|(name, _)| *name).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn is_register(callee: &str) -> bool {
    callee.starts_with('%')
}

/// The edited body, if it has such a call. A call is in braces, with the parameters that it passes.
fn edit(body: &str, scatters: impl Fn(&str) -> bool) -> Option<String> {
    let mut edited = String::with_capacity(body.len());
    let (mut start, mut depth, mut has_such, mut count) = (0, 0isize, false, 0);
    let mut call = String::new();
    for line in body.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default().trim();
        if depth == 0 {
            start = edited.len();
        }
        depth += code.matches('{').count() as isize - code.matches('}').count() as isize;
        let is_call = || instruction(code).is_some_and(|(opcode, _)| opcode.starts_with("call"));
        if !call.is_empty() || is_call() {
            call.push_str(code);
            call.push('\n');
            if code.ends_with(';') {
                has_such |= callee(&call).is_some_and(&scatters);
                call.clear();
            }
        }
        edited.push_str(line);
        if depth == 0 && has_such {
            let label = format!("$L__together_{count}");
            edited.insert_str(start, &format!(
                "\t{{\n\t.reg .pred \t%apart;\n\t.reg .b32 \t%lane;\n\t.reg .b32 \t%together;\n\tmov.u32 \t%lane, %lanemask_eq;\n\
                 \tsetp.eq.b32 \t%apart, %lane, 0;\n\t@%apart bra \t{label};\n\tactivemask.b32 \t%together;\n"
            ));
            edited.push_str(&format!("\tbar.warp.sync \t%together;\n{label}:\n\t}}\n"));
            (has_such, count) = (false, count + 1);
        }
    }
    (count > 0).then_some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of waits in each function that has any.
    fn meetings(ptx: &str) -> Vec<(String, usize)> {
        let edited = after_calls(ptx);
        assert_eq!(edited.matches("bar.warp.sync").count(), edited.matches("activemask").count());
        let functions = Ptx::parse(&edited).functions;
        functions
            .into_iter()
            .map(|f| (f.name.clone(), f.count("bar.warp.sync")))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    fn function(name: &str, callees: &[&str]) -> String {
        let call = |callee: &&str| {
            format!(
                "\t{{ // callseq 0\n\t.param .b64 a;\n\tcall.uni (r), \n\t{callee}, \n\t(\n\ta\n\t);\n\tld.param.b64 \t%rd1, [r];\n\t}}\n"
            )
        };
        let calls: String = callees.iter().map(call).collect();
        format!(".func {name}()\n{{\n\tmov.b32 \t%r1, 0;\n{calls}\tret;\n}}\n")
    }

    #[test]
    fn the_call_and_the_meeting_stand_under_a_condition() {
        let ptx = function("f", &["r"]) + &function("r", &["r"]);
        let (before, call) = ptx.split_once("\t{ //").unwrap();
        let (call, after) = call.split_once("\tret;").unwrap();
        assert_eq!(
            after_calls(&ptx),
            format!(
                "{before}\t{{\n\t.reg .pred \t%apart;\n\t.reg .b32 \t%lane;\n\t.reg .b32 \t%together;\n\
                 \tmov.u32 \t%lane, %lanemask_eq;\n\tsetp.eq.b32 \t%apart, %lane, 0;\n\t@%apart bra \t$L__together_0;\n\
                 \tactivemask.b32 \t%together;\n\t{{ //{call}\tbar.warp.sync \t%together;\n$L__together_0:\n\t}}\n\tret;{after}"
            )
        );
    }

    #[test]
    fn callers_of_cycles_have_meetings() {
        let ptx = [
            function("even", &["odd"]),
            function("odd", &["even", "leaf"]),
            function("leaf", &[]),
            function("caller", &["even", "leaf", "even"]),
            function("above", &["leaf", "caller"]),
        ]
        .concat();
        assert_eq!(meetings(&ptx), [("caller".to_owned(), 2), ("above".to_owned(), 1)]);
    }

    #[test]
    fn calls_through_pointers_have_meetings_unless_they_may_come_back() {
        let through = "\t{\n\tprototype_0 : .callprototype (.param .b32 _) _ ();\n\tcall (r), \n\t%rd2, \n\t(), prototype_0;\n\t}\n";
        let f = function("f", &["leaf"]).replace("\tret;", &format!("{through}\tret;"));
        let ptx = [f, function("leaf", &[]), function("g", &["f"])].concat();
        assert_eq!(meetings(&ptx), [("f".to_owned(), 1), ("g".to_owned(), 1)]);
        let taken = ptx.clone() + ".global .align 8 .u64 table[2] = {leaf, generic(g)};\n";
        assert!(meetings(&taken).is_empty(), "both may call themselves");
        let taken = ptx + ".global .align 8 .u64 table[1] = {leaf};\n";
        assert_eq!(meetings(&taken).len(), 2);
    }

    #[test]
    fn other_calls_stay() {
        let panics = function("panics", &["panics"]).replace("()\n{", "() .noreturn\n{");
        let ptx = [function("f", &["leaf", "panics"]), function("leaf", &[]), panics].concat();
        assert!(matches!(after_calls(&ptx), Cow::Borrowed(_)));
    }
}
