//! Atomic operations on a thread's own memory, and fences for the compiler alone.
//!
//! If libNVVM 13.5.37 infers that an atomic operation is on local memory, for example because all callers pass the address of
//! a variable, it replaces the code by `trap`. LLVM 22 writes `atom.local.cas`, which ptxas rejects. If the address is hidden
//! from both, ptxas sends the additions of a warp to one lane, because the address is the same in all lanes, although the
//! memory is not. So where an address may be local, a function of our own asks for its space, and uses plain accesses for
//! local memory. libNVVM inlines it, and removes the question where it knows the answer.
//!
//! LLVM 22 does not compile the fence of `compiler_fence`, whose scope is a single thread. It becomes empty assembly that may
//! access memory.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::lex::{Kind, lex, tokens};
use super::module::FunctionHeader;

/// Calls functions of our own for atomic operations on memory that may be local, and replaces fences for the compiler.
pub fn split_local(text: &str) -> String {
    let mut edited = String::with_capacity(text.len() + text.len() / 64);
    let mut function = String::new();
    let mut ours = Ours::default();
    for line in text.split_inclusive('\n') {
        if line.starts_with("define ") || !function.is_empty() {
            function.push_str(line);
            if line.trim_end() == "}" {
                edit(&std::mem::take(&mut function), &mut ours, &mut edited);
            }
        } else {
            edited.push_str(line);
        }
    }
    edited.push_str(&function);
    if !ours.text.is_empty() {
        edited.push_str(&ours.text);
        if !text.contains(DECLARATION) {
            edited.push_str(DECLARATION);
        }
    }
    edited
}

const DECLARATION: &str = "declare i1 @llvm.nvvm.isspacep.local(ptr)\n";

fn edit(function: &str, ours: &mut Ours, edited: &mut String) {
    let has = |word: &str| function.contains(word);
    if !has("atomicrmw ") && !has("cmpxchg ") && !has(COMPILER_FENCE) {
        edited.push_str(function);
        return;
    }
    let sources = Sources::of(function);
    for line in function.split_inclusive('\n') {
        if line.trim_start().starts_with(COMPILER_FENCE) {
            edited.push_str("  call void asm sideeffect \"\", \"~{memory}\"()\n");
            continue;
        }
        let atomic = Atomic::read(line)
            .filter(|atomic| sources.may_be_local(atomic.address, &mut HashSet::new()))
            .and_then(|atomic| Some((ours.name(&atomic)?, atomic)));
        let Some((name, Atomic { result, address, ty, values, place, .. })) = atomic else {
            edited.push_str(line);
            continue;
        };
        let of_type =
            |values: &[&str]| values.iter().fold(String::new(), |all, value| all + ", " + ty + " " + value);
        let returned = if values.len() == 2 { format!("{{ {ty}, i1 }}") } else { ty.to_owned() };
        // Writing to a string cannot fail.
        let _ =
            writeln!(edited, "  {result} = call {returned} {name}(ptr {address}{}){place}", of_type(&values));
    }
}

const COMPILER_FENCE: &str = "fence syncscope(\"singlethread\")";

/// An `atomicrmw` or `cmpxchg` of a generic address.
struct Atomic<'a> {
    result: &'a str,
    /// The operation of `atomicrmw`.
    operation: Option<&'a str>,
    /// The instruction up to its address.
    start: &'a str,
    address: &'a str,
    ty: &'a str,
    values: Vec<&'a str>,
    /// The scope, the ordering and the alignment.
    order: &'a str,
    /// The place in the source: `, !dbg !7`.
    place: String,
}

impl<'a> Atomic<'a> {
    fn read(line: &'a str) -> Option<Atomic<'a>> {
        if !line.contains("atomicrmw ") && !line.contains("cmpxchg ") {
            return None;
        }
        let all = lex(line);
        let [result, equals, instruction, ..] = all.as_slice() else { return None };
        let is_exchange = instruction.is("cmpxchg");
        let is_one =
            result.kind == Kind::Local && equals.is("=") && (is_exchange || instruction.is("atomicrmw"));
        let ptr = all.iter().position(|token| token.is("ptr")).filter(|_| is_one)?;
        let address = all.get(ptr + 1).filter(|token| token.kind == Kind::Local)?;
        let operation = (!is_exchange).then(|| all[ptr - 1].text);
        // Each comma is followed by a type and a value.
        let (mut at, mut values, mut ty) = (ptr + 2, Vec::new(), "");
        for _ in 0..1 + usize::from(is_exchange) {
            all.get(at).filter(|token| token.is(","))?;
            ty = all.get(at + 1).filter(|token| token.kind == Kind::Word)?.text;
            let value = all.get(at + 2)?;
            let next = all.get(at + 3)?;
            // A constant expression has brackets.
            (next.nesting() == 0).then_some(())?;
            values.push(value.text);
            at += 3;
        }
        let metadata = line.find(", !").unwrap_or(line.trim_end().len());
        let mut words = line[metadata..].split(", ");
        let place = words
            .find(|word| word.starts_with("!dbg "))
            .map_or_else(String::new, |dbg| format!(", {}", dbg.trim_end()));
        Some(Atomic {
            result: result.text,
            operation,
            start: &line[instruction.start..all[ptr].start],
            address: address.text,
            ty,
            values,
            order: &line[all.get(at)?.start..metadata],
            place,
        })
    }

    /// The plain computation of `%new` from `%old`, if the operation has one.
    fn new_value(&self) -> Option<String> {
        let ty = self.ty;
        let chosen = |test: &str| {
            format!("  %test = {test} {ty} %old, %a\n  %new = select i1 %test, {ty} %old, {ty} %a\n")
        };
        Some(match self.operation {
            None => format!("  %is = icmp eq {ty} %old, %a\n  %new = select i1 %is, {ty} %b, {ty} %old\n"),
            Some("xchg") => format!("  %new = select i1 true, {ty} %a, {ty} %old\n"),
            Some(operation @ ("add" | "sub" | "and" | "or" | "xor" | "fadd" | "fsub")) => {
                format!("  %new = {operation} {ty} %old, %a\n")
            }
            Some("nand") => format!("  %both = and {ty} %old, %a\n  %new = xor {ty} %both, -1\n"),
            Some("max") => chosen("icmp sgt"),
            Some("min") => chosen("icmp slt"),
            Some("umax") => chosen("icmp ugt"),
            Some("umin") => chosen("icmp ult"),
            Some(_) => return None,
        })
    }
}

/// The functions that do an atomic operation on any memory.
#[derive(Default)]
struct Ours {
    names: HashMap<String, String>,
    text: String,
}

impl Ours {
    fn name(&mut self, atomic: &Atomic<'_>) -> Option<String> {
        let Atomic { start, ty, order, values, .. } = atomic;
        let key = format!("{start}{ty} {order}");
        if let Some(name) = self.names.get(&key) {
            return Some(name.clone());
        }
        let new_value = atomic.new_value()?;
        let name = format!("@__ferrowarp_atomic_{}", self.names.len());
        let (returned, parameters, result) = if values.len() == 2 {
            let result = format!(
                "  %one = insertvalue {{ {ty}, i1 }} poison, {ty} %old, 0\n  \
                   %both = insertvalue {{ {ty}, i1 }} %one, i1 %is, 1\n  ret {{ {ty}, i1 }} %both\n"
            );
            (format!("{{ {ty}, i1 }}"), format!("{ty} %a, {ty} %b"), result)
        } else {
            ((*ty).to_owned(), format!("{ty} %a"), format!("  ret {ty} %old\n"))
        };
        // The address in the other arm is a copy, from which nothing is inferred.
        self.text.push_str(&format!(
            "define internal {returned} {name}(ptr %p, {parameters}) alwaysinline nounwind {{\n  \
               %is.local = call i1 @llvm.nvvm.isspacep.local(ptr %p)\n  br i1 %is.local, label %local, label %other\n\n\
             local:\n  %l = addrspacecast ptr %p to ptr addrspace(5)\n  %old = load {ty}, ptr addrspace(5) %l\n\
             {new_value}  store {ty} %new, ptr addrspace(5) %l\n{result}\n\
             other:\n  %q = call ptr asm \"mov.b64 $0, $1;\", \"=l,l\"(ptr %p) nounwind willreturn memory(none)\n  \
               %r = {start}ptr %q, {parameters} {order}\n  ret {returned} %r\n}}\n",

        ));
        self.names.insert(key, name.clone());
        Some(name)
    }
}

/// Where the addresses of a function come from.
struct Sources<'a> {
    is_kernel: bool,
    parameters: Vec<&'a str>,
    values: HashMap<&'a str, Source<'a>>,
}

enum Source<'a> {
    Alloca,
    /// One of these, or loaded from there.
    Values(Vec<&'a str>),
    /// The compilers know nothing about it either.
    Opaque,
}

impl<'a> Sources<'a> {
    fn of(function: &'a str) -> Sources<'a> {
        let header = function.lines().next().unwrap_or_default();
        let is_kernel = header.contains("ptx_kernel ");
        let parameters = FunctionHeader::parse(header).map(|header| header.parameters()).unwrap_or_default();
        let values = function.lines().filter_map(source).collect();
        Sources { is_kernel, parameters, values }
    }

    fn may_be_local(&self, value: &'a str, seen: &mut HashSet<&'a str>) -> bool {
        seen.insert(value)
            && match self.values.get(value) {
                Some(Source::Alloca) => true,
                Some(Source::Values(values)) => values.iter().any(|value| self.may_be_local(value, seen)),
                Some(Source::Opaque) => false,
                // Callers of other functions may pass anything.
                None => !self.is_kernel && self.parameters.contains(&value),
            }
    }
}

/// A value's name, and what it is computed from.
fn source(line: &str) -> Option<(&str, Source<'_>)> {
    let mut words = tokens(line);
    let name = words.next().filter(|token| token.kind == Kind::Local)?;
    words.next().filter(|token| token.is("="))?;
    let instruction = words.find(|token| !token.is("tail"))?;
    let source = match instruction.text {
        "alloca" => Source::Alloca,
        "getelementptr" | "select" | "phi" | "freeze" | "addrspacecast" | "bitcast" | "load" | "inttoptr"
        | "ptrtoint" | "add" | "extractvalue" => {
            Source::Values(words.filter(|token| token.kind == Kind::Local).map(|token| token.text).collect())
        }
        // A call may return one of its arguments.
        "call" if !line.contains(" asm ") => {
            Source::Values(words.filter(|token| token.kind == Kind::Local).map(|token| token.text).collect())
        }
        _ => Source::Opaque,
    };
    Some((name.text, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_may_be_local_is_looked_at() {
        let function = "define internal i32 @f(ptr noundef %a, i32 %n) #1 {
  %r = atomicrmw volatile add ptr %a, i32 7 syncscope(\"device\") monotonic, align 4, !dbg !7
  %s = atomicrmw volatile add ptr %a, i32 %n syncscope(\"device\") monotonic, align 4
  ret i32 %r
}
";
        let edited = split_local(function);
        let calls = "  %r = call i32 @__ferrowarp_atomic_0(ptr %a, i32 7), !dbg !7\n  \
                     %s = call i32 @__ferrowarp_atomic_0(ptr %a, i32 %n)\n";
        assert!(edited.contains(calls), "{edited}");
        let other = "%r = atomicrmw volatile add ptr %q, i32 %a syncscope(\"device\") monotonic, align 4\n";
        assert!(edited.contains(other) && edited.contains("  %new = add i32 %old, %a\n"), "{edited}");
        assert_eq!(split_local(&edited).matches("define internal").count(), 2, "{edited}");
        let kernel = |address: &str| {
            format!(
                "define ptx_kernel void @k(ptr %out, i64 %n) {{\n  %c = alloca [4 x i64], align 8\n  \
                 %l = getelementptr i64, ptr %c, i64 %n\n  %g = getelementptr i64, ptr %out, i64 %n\n  \
                 %b = select i1 %p, ptr %l, ptr %g\n  %h = phi ptr [ %h, %x ], [ %l, %y ]\n  \
                 %q = load ptr, ptr %c, align 8\n  %o = call ptr asm \"\", \"=l\"()\n  \
                 %x = cmpxchg weak ptr {address}, i64 %n, i64 1 acquire monotonic, align 8\n}}\n"
            )
        };
        for local in ["%c", "%l", "%b", "%h", "%q"] {
            let edited = split_local(&kernel(local));
            let call = format!("%x = call {{ i64, i1 }} @__ferrowarp_atomic_0(ptr {local}, i64 %n, i64 1)\n");
            assert!(edited.contains(&call) && edited.contains(DECLARATION), "{edited}");
            assert!(
                edited.contains("cmpxchg weak ptr %q, i64 %a, i64 %b acquire monotonic, align 8"),
                "{edited}"
            );
        }
        for other in ["%out", "%g", "%o", "@cell"] {
            assert_eq!(split_local(&kernel(other)), kernel(other));
        }
    }

    #[test]
    fn a_fence_for_the_compiler_is_empty_assembly() {
        let function = |fence: &str| format!("define void @f() {{\n  {fence}\n  fence seq_cst\n}}\n");
        let asm = "call void asm sideeffect \"\", \"~{memory}\"()";
        assert_eq!(split_local(&function("fence syncscope(\"singlethread\") acq_rel")), function(asm));
        assert_eq!(split_local(&function(asm)), function(asm));
    }
}
