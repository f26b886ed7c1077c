//! Reads the functions, variables and instructions of PTX.

use std::collections::{HashMap, HashSet};

/// A module's functions and variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ptx {
    /// Functions, including kernels, in order.
    pub functions: Vec<PtxFunction>,
    /// Variables of the module and of its functions.
    pub variables: Vec<PtxVariable>,
}

/// A function of a PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxFunction {
    /// Its symbol.
    pub name: String,
    /// Whether it is a kernel.
    pub is_entry: bool,
    /// Whether it never returns: panics do not.
    pub is_noreturn: bool,
    /// Whether it is declared here and defined elsewhere.
    pub is_extern: bool,
    /// Its statements, each without labels, predicate and semicolon.
    pub statements: Vec<String>,
}

/// A variable of a PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxVariable {
    /// Its symbol.
    pub name: String,
    /// `.shared`, `.const`, `.global` or `.local`.
    pub space: String,
    /// Whether its size is set at launch or elsewhere.
    pub is_extern: bool,
    /// Its size; 0 if that is set at launch.
    pub bytes: u64,
}

impl Ptx {
    /// Reads a module. Invalid PTX gives a module with fewer functions, never a panic.
    pub fn parse(text: &str) -> Ptx {
        let text = without_notes(text);
        let mut ptx = Ptx::default();
        let mut rest = text.as_str();
        while let Some(end) = rest.find([';', '{']) {
            let head = rest[..end].trim();
            if rest.as_bytes()[end] == b';' {
                ptx.take_declaration(head);
                rest = &rest[end + 1..];
            } else if has_word(head, ".entry") || has_word(head, ".func") {
                let close = closing_brace(&rest[end..]).map_or(rest.len(), |offset| end + offset);
                ptx.take_function(head, &rest[end + 1..close]);
                rest = rest.get(close + 1..).unwrap_or_default();
            } else {
                // A variable with an initial value, `= {1, 2};`.
                ptx.take_declaration(head);
                let close = closing_brace(&rest[end..]).map_or(rest.len(), |offset| end + offset);
                let after =
                    rest.get(close..).and_then(|tail| tail.find(';')).map_or(rest.len(), |n| close + n + 1);
                rest = &rest[after..];
            }
        }
        ptx
    }

    /// The kernels.
    pub fn entries(&self) -> impl Iterator<Item = &PtxFunction> {
        self.functions.iter().filter(|function| function.is_entry)
    }

    /// The function named `name` with its body, if any.
    pub fn function(&self, name: &str) -> Option<&PtxFunction> {
        let named = || self.functions.iter().filter(|function| function.name == name);
        named().find(|function| !function.statements.is_empty()).or_else(|| named().next())
    }

    /// The kernel itself, and the functions that it can run without panicking: functions that return and that the kernel or
    /// another of these names.
    pub fn run_by<'a>(&'a self, kernel: &'a str) -> Vec<&'a str> {
        let mut by_name: HashMap<&str, Vec<&PtxFunction>> = HashMap::new();
        for function in &self.functions {
            by_name.entry(&function.name).or_default().push(function);
        }
        let mut run = vec![kernel];
        let mut seen = HashSet::from([kernel]);
        let mut next = 0;
        while let Some(name) = run.get(next).copied() {
            next += 1;
            for name in by_name.get(name).into_iter().flatten().flat_map(|f| f.names()) {
                let returns = by_name.get(name).is_some_and(|named| named.iter().any(|f| !f.is_noreturn));
                if returns && seen.insert(name) {
                    run.push(name);
                }
            }
        }
        run
    }

    /// The bytes of `.const` variables that the kernel names, directly or in a function that it runs.
    pub fn constant_bytes(&self, kernel: &str) -> u64 {
        let run: HashSet<&str> = self.run_by(kernel).into_iter().collect();
        let bodies = self.functions.iter().filter(|f| run.contains(&*f.name));
        let named: HashSet<&str> = bodies.flat_map(PtxFunction::names).collect();
        let constants = self.variables.iter().filter(|v| v.space == ".const" && named.contains(&*v.name));
        constants.map(|v| v.bytes).fold(0, u64::saturating_add)
    }

    fn take_declaration(&mut self, head: &str) {
        if has_word(head, ".func") {
            self.take_function(head, "");
        } else {
            self.variables.extend(variable(head));
        }
    }

    fn take_function(&mut self, head: &str, body: &str) {
        let Some(name) = function_name(head) else { return };
        let mut statements = Vec::new();
        for statement in body.split([';', '{', '}']) {
            let statement = without_prefix(statement);
            if let Some(variable) = variable(statement) {
                self.variables.push(variable);
            }
            if !statement.is_empty() {
                statements.push(statement.to_owned());
            }
        }
        self.functions.push(PtxFunction {
            name: name.to_owned(),
            is_entry: has_word(head, ".entry"),
            is_noreturn: has_word(head, ".noreturn"),
            is_extern: has_word(head, ".extern"),
            statements,
        });
    }
}

impl PtxFunction {
    /// The number of its statements with an opcode or directive that `pattern` matches.
    ///
    /// `shfl.sync` matches `shfl.sync.bfly.b32`: whole parts, from the first. `.local` matches `ld.local.b32` and the
    /// directive `.local`: whole parts, anywhere.
    pub fn count(&self, pattern: &str) -> usize {
        self.statements.iter().filter(|statement| matches(statement, pattern)).count()
    }

    /// The callees of its calls: symbols, and registers with a function's address.
    pub fn callees(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| callee(statement))
    }

    /// The words of the body that may be symbols.
    fn names(&self) -> impl Iterator<Item = &str> {
        let is_symbol = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let words = self.statements.iter().flat_map(move |s| s.split(move |c: char| !is_symbol(c)));
        words.filter(|word| !word.is_empty())
    }
}

fn matches(statement: &str, pattern: &str) -> bool {
    let opcode = statement.split_whitespace().next().unwrap_or_default();
    let parts: Vec<&str> = opcode.split('.').filter(|part| !part.is_empty()).collect();
    let wanted: Vec<&str> = pattern.split('.').filter(|part| !part.is_empty()).collect();
    if wanted.is_empty() {
        return false;
    }
    if pattern.starts_with('.') {
        return parts.windows(wanted.len()).any(|window| window == wanted);
    }
    !opcode.starts_with('.') && parts.starts_with(&wanted)
}

/// The statement's callee: a symbol or a register. The result, in parentheses, is before it.
pub(crate) fn callee(statement: &str) -> Option<&str> {
    let rest = statement.strip_prefix("call")?;
    let rest = rest[rest.find(char::is_whitespace)?..].trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start().strip_prefix(',')?.trim_start(),
        None => rest,
    };
    let callee = rest.split(|c: char| c == ',' || c.is_whitespace()).next()?;
    (!callee.is_empty()).then_some(callee)
}

/// A statement without labels (`$L__BB0_1:`) and predicate (`@%p1`).
fn without_prefix(statement: &str) -> &str {
    let mut statement = statement.trim();
    while let Some((label, rest)) = statement.split_once(':') {
        // A double colon belongs to a qualifier such as `.L1::no_allocate`.
        if label.contains(char::is_whitespace) || label.contains('"') || rest.starts_with(':') {
            break;
        }
        statement = rest.trim_start();
    }
    match statement.strip_prefix('@') {
        Some(rest) => {
            rest.split_once(char::is_whitespace).map_or("", |(_, instruction)| instruction.trim_start())
        }
        None => statement,
    }
}

fn has_word(head: &str, word: &str) -> bool {
    head.split(|c: char| c.is_whitespace() || c == '(' || c == ')').any(|w| w == word)
}

/// The name after `.entry` or `.func`; a function's result is in parentheses before it.
pub(crate) fn function_name(head: &str) -> Option<&str> {
    let at = head
        .find(".entry")
        .map(|at| at + ".entry".len())
        .or_else(|| head.find(".func").map(|at| at + ".func".len()))?;
    let mut rest = head[at..].trim_start();
    if rest.starts_with('(') {
        rest = rest.split_once(')')?.1.trim_start();
    }
    let name = rest.split(|c: char| c.is_whitespace() || c == '(').next()?;
    (!name.is_empty()).then_some(name)
}

/// The variable that a declaration such as `.visible .global .align 4 .b8 NAME[16]` declares.
fn variable(head: &str) -> Option<PtxVariable> {
    if !head.starts_with('.') {
        return None;
    }
    let head = head.split('=').next()?;
    let mut words = head.split_whitespace();
    let space = words.clone().find(|word| matches!(*word, ".shared" | ".const" | ".global" | ".local"))?;
    let name = words.next_back()?.split('[').next()?;
    let is_extern = has_word(head, ".extern");
    let bits =
        words.filter_map(|word| word.trim_start_matches('.').get(1..)?.parse::<u64>().ok()).next_back();
    let length = match head.split_once('[') {
        Some((_, length)) => length.trim_end().trim_end_matches(']').parse().unwrap_or(0),
        None => 1,
    };
    let bytes = (bits.unwrap_or(0) / 8).saturating_mul(length);
    Some(PtxVariable { name: name.to_owned(), space: space.to_owned(), is_extern, bytes })
}

fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.bytes().position(|byte| {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        depth == 0
    })
}

/// The text without comments and without lines that name source locations, which have no semicolon.
fn without_notes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        let line_comment = rest[..at].rfind("//").filter(|start| !rest[*start..at].contains('\n'));
        if line_comment.is_some() {
            let (before, after) = rest.split_at(at + 2);
            out.push_str(before);
            rest = after;
            continue;
        }
        out.push_str(&rest[..at]);
        rest = rest[at + 2..].split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    let is_place = |line: &&str| matches!(line.split_whitespace().next(), Some(".loc" | ".file"));
    let lines = out.lines().filter(|line| !is_place(line));
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "//\n// Generated by LLVM /* NVPTX\n//\n.version 8.6\n.target sm_75\n\
        .func  (.param .b32 func_retval0) helper\n(\n\t.param .b64 helper_param_0\n)\n;\n\
        .extern .shared .align 16 .b8 dyn[];\n\
        .global .align 1 .b8 text[3] = {97, 98, 0};\n\
        .visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid 256\n{\n\
        \t.reg .b32 \t%r<3>;\n\t// demoted variable\n\t.shared .align 4 .b8 tile[16];\n\
        \t.loc\t1 7 5, function_name $L__info_string0, inlined_at 1 9 5\n\
        \t@%p1 bra \t$L__BB0_2;\n$L__BB0_1:\n\tbar.sync \t0;\n\t{ // callseq 0\n\tcall.uni (r), helper, (p);\n\t}\n\
        $L__BB0_2: ld.local.b32 %r1, [%rd1];\n\tret;\n}\n\
        .func panics() .noreturn { trap; }\n";

    #[test]
    fn functions_and_variables() {
        let ptx = Ptx::parse(MODULE);
        let names: Vec<&str> = ptx.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["helper", "k", "panics"]);
        assert!(ptx.function("panics").unwrap().is_noreturn && !ptx.function("k").unwrap().is_noreturn);
        assert_eq!(ptx.entries().count(), 1);
        let variables: Vec<(&str, &str)> =
            ptx.variables.iter().map(|v| (v.space.as_str(), v.name.as_str())).collect();
        assert_eq!(variables, [(".shared", "dyn"), (".global", "text"), (".shared", "tile")]);
    }

    #[test]
    fn what_a_kernel_runs() {
        let ptx = Ptx::parse(
            ".const .align 4 .b32 table[5] = {1, 2, 3, 4, 5};\n.const .f64 other;\n\
             .func deep() { ld.const.b32 %r1, [table+4]; ret; }\n.func helper() { call deep, (); ret; }\n\
             .func copy() { ret; }\n.func panics() .noreturn { call copy, (); trap; }\n\
             .entry k() { call helper, (); call panics, (); ret; }",
        );
        assert_eq!(ptx.run_by("k"), ["k", "helper", "deep"]);
        assert_eq!((ptx.constant_bytes("k"), ptx.constant_bytes("copy")), (20, 0));
    }

    #[test]
    fn counting() {
        let ptx = Ptx::parse(MODULE);
        let kernel = ptx.function("k").unwrap();
        let count = |pattern| kernel.count(pattern);
        assert_eq!((count("bar.sync"), count("bar"), count("bar.sy")), (1, 1, 0));
        assert_eq!((count("bra"), count(".local"), count("ld"), count("call.uni")), (1, 1, 1, 1));
        assert_eq!((count(".shared"), count(""), count("reg"), count(".loc")), (1, 0, 0, 0));
    }
}
