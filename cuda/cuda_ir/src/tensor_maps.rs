//! Keeps tensor maps out of local memory: the hardware reads them from param, constant or global memory.
//!
//! Rust code uses a tensor map that was passed by value like any other variable. LLVM would leave its copy in local memory,
//! because inline assembly that gets its address might change it. This edit states for each tensor instruction that it only
//! reads the map. Then LLVM replaces the copy by the parameter itself.

use std::collections::{HashMap, HashSet};

use super::IrError;
use super::lex::{Kind, Token, closing, lex, split_at_commas, tokens};
use super::module::{ItemKind, Module, call_on};

/// Marks the operand that is a tensor map's address in all inline assembly.
pub(super) fn mark(module: &mut Module) {
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        if names_one(&item.text) {
            let lines: Vec<String> = item.text.lines().map(marked).collect();
            item.text = lines.join("\n");
        }
    }
}

/// Whether the text may contain an instruction that reads a tensor map.
fn names_one(text: &str) -> bool {
    text.contains(".tensor") || text.contains("tensormap")
}

/// The marked line, if it is inline assembly that reads a tensor map through a pointer.
fn marked(line: &str) -> String {
    let Some(ty) = map_argument(line).and_then(|argument| argument.first().copied()) else {
        return line.to_owned();
    };
    let (before, after) = line.split_at(ty.end());
    format!("{before} readonly captures(none){after}")
}

/// The argument of inline assembly that is a pointer to a tensor map: its type, attributes and value.
fn map_argument(line: &str) -> Option<Vec<Token<'_>>> {
    let call = call_on(line).filter(|call| call.callee.kind == Kind::Text)?;
    let tokens = lex(line);
    let constraints = tokens.iter().position(|token| token.start == call.callee.start)?;
    let template = tokens[..constraints].iter().rfind(|token| token.kind == Kind::Text)?;
    let operand = map_operand(template.text)?;
    let is_output = |constraint: &&str| constraint.starts_with('=');
    let outputs = tokens[constraints].text.trim_matches('"').split(',').filter(is_output).count();
    let close = closing(&tokens, constraints + 1)?;
    let arguments = &tokens[constraints + 2..close];
    let argument = split_at_commas(arguments).into_iter().nth(operand.checked_sub(outputs)?)?;
    Some(arguments[argument].to_vec()).filter(|argument| argument.first().is_some_and(|ty| ty.is("ptr")))
}

/// Rejects a module, after LLVM's passes, with a tensor map that is still a copy in local memory.
///
/// # Errors
/// An instruction reads such a copy; the error names the function.
pub fn check(text: &str) -> Result<(), IrError> {
    if !names_one(text) {
        return Ok(());
    }
    let (mut function, mut sources): (&str, HashMap<&str, Source<'_>>) = ("", HashMap::new());
    let mut readers: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.starts_with("define ") {
            function = tokens(line).find(|token| token.kind == Kind::Global).map_or("", |name| name.text);
        } else if line == "}" {
            let is_copy = |map: &&str| is_local(map, &sources, &mut HashSet::new());
            if let Some(map) = readers.iter().find(|map| is_copy(map)) {
                let reason = format!(
                    "the tensor map {map} is a copy in local memory, where the hardware cannot read it: take it from the \
                     kernel's parameter by reference, in functions that are inlined, and do not write to it"
                );
                return Err(IrError::new("tensor_maps", function, reason));
            }
            sources.clear();
            readers.clear();
        } else if let Some((name, source)) = source_of(line) {
            sources.insert(name, source);
        } else if names_one(line) {
            let map = map_argument(line).and_then(|argument| argument.last().copied());
            readers.extend(map.filter(|map| map.kind == Kind::Local).map(|map| map.text));
        }
    }
    Ok(())
}

/// The origin of an address.
enum Source<'a> {
    Alloca,
    /// Computed from one of these.
    Values(Vec<&'a str>),
}

/// `%x = getelementptr i8, ptr %y, i64 64`: the name, and its origin.
fn source_of(line: &str) -> Option<(&str, Source<'_>)> {
    let (name, rest) = line.trim_start().split_once(" = ").filter(|(name, _)| name.starts_with('%'))?;
    let word = rest.split(' ').next()?;
    if word == "alloca" {
        return Some((name, Source::Alloca));
    }
    let keeps_address =
        ["getelementptr", "select", "phi", "freeze", "addrspacecast", "bitcast"].contains(&word);
    let values = || tokens(rest).filter(|token| token.kind == Kind::Local).map(|token| token.text).collect();
    keeps_address.then(|| (name, Source::Values(values())))
}

fn is_local<'a>(name: &'a str, sources: &HashMap<&'a str, Source<'a>>, seen: &mut HashSet<&'a str>) -> bool {
    seen.insert(name)
        && match sources.get(name) {
            Some(Source::Alloca) => true,
            Some(Source::Values(values)) => values.iter().any(|value| is_local(value, sources, seen)),
            None => false,
        }
}

/// The index of the operand that is the map's address: the first one in brackets before coordinates, `[$1, {$2, $3}]`, or
/// the only one of a prefetch, `[$0]`.
fn map_operand(template: &str) -> Option<usize> {
    let operand = if let Some(at) = template.find("prefetch.tensormap") {
        template[at..].split_once('[')?.1.split_once(']')?.0
    } else {
        let at =
            [".async.bulk.tensor.", ".bulk.prefetch.tensor."].iter().find_map(|name| template.find(name))?;
        let before_coordinates = |piece: &&str| {
            piece.split_once(',').is_some_and(|(_, rest)| rest.trim_start().starts_with(['{', '$']))
        };
        template[at..].split('[').skip(1).find(before_coordinates)?.split_once(',')?.0
    };
    let number = operand.trim().strip_prefix('$')?;
    let number = number.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(number);
    number.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operand_is_found_in_each_instruction() {
        for (template, operand) in [
            ("cp.async.bulk.tensor.2d.shared::cluster.global.tile [$0], [$1, {$2, $3}], [$4];", Some(1)),
            (
                "{ .reg .b64 t; cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [${2:x}, {$0}], [$1]; }",
                Some(2),
            ),
            (
                "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [ $3 , {$0, $1}], [$2];",
                Some(3),
            ),
            ("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [$0, {$1, $2, $3}];", Some(0)),
            ("prefetch.tensormap [$0];", Some(0)),
            ("prefetch.param.tensormap [$0];", None),
            ("tensormap.replace.tile.rank.global.b1024.b32 [$0], 1;", None),
            ("cp.async.bulk.shared::cluster.global [$0], [$1], $2, [$3];", None),
            ("cp.async.bulk.tensor.2d [$0], [%rd1, {$2, $3}], [$4];", None),
        ] {
            assert_eq!(map_operand(template), operand, "{template}");
        }
    }

    #[test]
    fn a_pointer_to_a_map_is_only_read() {
        let asm = |operands: &str| {
            format!(
                "  %3 = call i32 asm sideeffect \"prefetch.tensormap [$1]; mov.b32 $0, 1;\", \"=r,l,~{{memory}}\"({operands}) #2"
            )
        };
        assert_eq!(marked(&asm("ptr %x")), asm("ptr readonly captures(none) %x"));
        assert_eq!(marked(&asm("i64 %x")), asm("i64 %x"));
        let call = "  call void @prefetch.tensormap(ptr %x)";
        assert_eq!(marked(call), call);
    }

    #[test]
    fn a_copy_in_local_memory_is_refused() {
        let kernel = |body: &str| {
            format!(
                "define ptx_kernel void @other() {{\n  %copy = alloca [128 x i8]\n}}\n\
                 define ptx_kernel void @k(ptr byval([128 x i8]) %a) {{\n{body}  call void asm \"prefetch.tensormap [$0];\", \
                 \"l\"(ptr readonly captures(none) %map)\n  ret void\n}}\n"
            )
        };
        let alloca = "  %copy = alloca [128 x i8], align 64\n";
        for fine in [
            "  %map = getelementptr i8, ptr %a, i64 64\n",
            "  %map = phi ptr [ %a, %x ], [ %map, %y ]\n",
            alloca,
        ] {
            check(&kernel(fine)).unwrap();
        }
        for wrong in [
            "  %map = alloca [128 x i8], align 64\n",
            &format!("{alloca}  %map = getelementptr i8, ptr %copy, i64 64\n"),
            &format!("  %map = select i1 %x, ptr %a, ptr %copy\n{alloca}"),
        ] {
            let error = check(&kernel(wrong)).unwrap_err().to_string();
            assert!(error.contains("at `@k`: the tensor map %map is a copy in local memory"), "{error}");
        }
    }
}
