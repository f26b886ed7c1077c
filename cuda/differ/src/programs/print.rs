//! Programs as source text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::ast::*;

/// The source of one program: what stands in the kernel crate, and what stands in the crate that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A module with `pub fn run(input: &[u8; 64], s: &mut Sink<'_>)`.
    pub program: String,
    /// A module of the other crate.
    pub helper: String,
}

const HEAD: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";

/// Writes a program; `number` is that of its module in the other crate.
pub fn source(program: &Program, number: usize) -> Source {
    let used = reachable(program);
    let mut own = format!("{HEAD}use helper::h{number}::*;\nuse helper::rt::*;\n\n");
    let mut other = format!("{HEAD}use crate::rt::*;\n\n");
    let types = if program.types_elsewhere { &mut other } else { &mut own };
    types.push_str(&definitions(program));
    for (index, function) in program.functions.iter().enumerate().filter(|(index, _)| used.contains(index)) {
        let to = if function.elsewhere { &mut other } else { &mut own };
        to.push_str(&text_of_function(function, &format!("pub fn f{index}")));
    }
    let inline = if program.main_inline { "#[inline(never)]\n" } else { "" };
    own.push_str(inline);
    own.push_str("pub fn run(input: &[u8; 64], s: &mut Sink<'_>) {\n");
    own.push_str(&block(&program.main, 1));
    own.push_str("}\n");
    Source { program: own, helper: other }
}

/// The functions that are called from what is called from `main` and the methods.
fn reachable(program: &Program) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut open = calls_of(&program.main);
    open.extend(
        program.impls.iter().flat_map(|(_, methods)| methods).flat_map(|method| calls_of(&method.body)),
    );
    while let Some(index) = open.pop() {
        if all.insert(index) {
            open.extend(calls_of(&program.functions[index].body));
        }
    }
    all
}

fn calls_of(block: &Block) -> Vec<usize> {
    let mut all = Vec::new();
    super::visit::forms(block, &mut |form| all.extend(form.call));
    all
}

/// Structures, enums, tables and the trait.
fn definitions(program: &Program) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    for (number, fields) in program.structs.iter().enumerate() {
        let _ = writeln!(text, "#[derive(Clone, Copy, PartialEq)]\npub struct S{number} {{");
        for (i, field) in fields.iter().enumerate() {
            let _ = writeln!(text, "    pub f{i}: {},", field.name());
        }
        let emit: String = (0..fields.len()).map(|i| format!("self.f{i}.emit(s); ")).collect();
        let mix = (0..fields.len()).fold("hash".to_owned(), |hash, i| format!("self.f{i}.mix({hash})"));
        let _ = writeln!(
            text,
            "}}\nimpl Emit for S{number} {{\n    fn emit(&self, s: &mut Sink<'_>) {{ {emit}}}\n    \
             fn mix(&self, hash: u64) -> u64 {{ {mix} }}\n}}"
        );
    }
    for (number, variants) in program.enums.iter().enumerate() {
        let _ = writeln!(text, "#[derive(Clone, Copy, PartialEq)]\npub enum E{number} {{");
        let (mut arms, mut mixes) = (String::new(), String::new());
        for (i, data) in variants.iter().enumerate() {
            let types: Vec<String> = data.iter().map(Ty::name).collect();
            let names: Vec<String> = (0..data.len()).map(|i| format!("x{i}")).collect();
            let (types, binds) = if data.is_empty() {
                (String::new(), String::new())
            } else {
                (format!("({})", types.join(", ")), format!("({})", names.join(", ")))
            };
            let emit: String = names.iter().map(|name| format!(" {name}.emit(s);")).collect();
            let _ = writeln!(text, "    V{i}{types},");
            let _ = writeln!(arms, "            E{number}::V{i}{binds} => {{ s.word({i});{emit} }}");
            let mix =
                names.iter().fold(format!("{i}u8.mix(hash)"), |hash, name| format!("{name}.mix({hash})"));
            let _ = writeln!(mixes, "            E{number}::V{i}{binds} => {mix},");
        }
        let _ = writeln!(
            text,
            "}}\nimpl Emit for E{number} {{\n    fn emit(&self, s: &mut Sink<'_>) {{\n        match self {{\n{arms}        }}\n    }}\n    \
             fn mix(&self, hash: u64) -> u64 {{\n        match self {{\n{mixes}        }}\n    }}\n}}"
        );
    }
    for (number, table) in program.statics.iter().enumerate() {
        let element = table.first().map_or_else(|| "u8".to_owned(), |first| first.ty.name());
        let values: Vec<String> = table.iter().map(expr).collect();
        let _ =
            writeln!(text, "pub static T{number}: [{element}; {}] = [{}];", table.len(), values.join(", "));
    }
    text.push_str(&text_of_trait(program));
    text
}

fn text_of_trait(program: &Program) -> String {
    let mut text = String::new();
    if program.impls.is_empty() {
        return text;
    }
    text.push_str("pub trait Act {\n");
    for (i, Method { is_mut, param, result }) in program.methods.iter().enumerate() {
        let receiver = if *is_mut { "&mut self" } else { "&self" };
        let _ = writeln!(text, "    fn m{i}({receiver}, x: {}) -> {};", param.name(), result.name());
    }
    text.push_str("}\n");
    for (structure, functions) in &program.impls {
        let _ = writeln!(text, "impl Act for S{structure} {{");
        for (i, (function, method)) in functions.iter().zip(&program.methods).enumerate() {
            let receiver = if method.is_mut { "&mut self" } else { "&self" };
            let [this, param] = [0, 1].map(|i| function.params[i].var);
            let (takes, gives) = (method.param.name(), method.result.name());
            let _ = writeln!(
                text,
                "{}    fn m{i}({receiver}, mut v{param}: {takes}) -> {gives} {{\n    let v{this} = self;\n{}    }}",
                attribute(function.inline),
                block(&function.body, 2)
            );
        }
        text.push_str("}\n");
    }
    text
}

fn attribute(inline: Inline) -> &'static str {
    match inline {
        Inline::Free => "",
        Inline::Never => "#[inline(never)]\n",
        Inline::Always => "#[inline(always)]\n",
    }
}

fn text_of_function(function: &Function, head: &str) -> String {
    let param = |Param { var, mode, ty }: &Param| {
        let ty = ty.name();
        match mode {
            Mode::Value => format!("mut v{var}: {ty}"),
            Mode::Ref => format!("v{var}: &{ty}"),
            Mode::RefMut => format!("v{var}: &mut {ty}"),
            Mode::Slice => format!("v{var}: &[{ty}]"),
            Mode::SliceMut => format!("v{var}: &mut [{ty}]"),
        }
    };
    let params: Vec<String> = function.params.iter().map(param).collect();
    let generic = if function.is_generic { "<T: Num>" } else { "" };
    let result = function.result.as_ref().map_or_else(String::new, |ty| format!(" -> {}", ty.name()));
    format!(
        "{}{head}{generic}({}){result} {{\n{}}}\n\n",
        attribute(function.inline),
        params.join(", "),
        block(&function.body, 1)
    )
}

fn block(block: &Block, depth: usize) -> String {
    let mut text = String::new();
    let indent = "    ".repeat(depth);
    for stmt in &block.stmts {
        let line = match stmt {
            Stmt::Let(var, value) => format!("let mut v{var}: {} = {};", value.ty.name(), expr(value)),
            Stmt::Form(form) => fill(form, depth),
        };
        let _ = writeln!(text, "{indent}{line}");
    }
    if let Some(value) = &block.value {
        let _ = writeln!(text, "{indent}{}", expr(value));
    }
    text
}

/// A value as text, that stands in parentheses where it could be torn apart.
fn expr(expr: &Expr) -> String {
    match &expr.node {
        Node::Literal(bits) => literal(&expr.ty, *bits),
        Node::Place(place) => text_of_place(place),
        Node::Form(form) => format!("({})", fill(form, 0)),
    }
}

fn text_of_place(place: &Place) -> String {
    let mut text = format!("v{}", place.var);
    if place.deref {
        text = format!("(*{text})");
    }
    for step in &place.steps {
        match step {
            Step::Field(name) => text = format!("{text}.{name}"),
            Step::Index(index, Some(len)) => match index.node {
                Node::Literal(value) if value < *len as u128 => text = format!("{text}[{value}]"),
                _ => text = format!("{text}[{} % {len}]", expr(index)),
            },
            Step::Index(index, None) => text = format!("{text}[{} % {text}.len()]", expr(index)),
        }
    }
    text
}

/// The text of a form with its holes filled.
fn fill(form: &Form, depth: usize) -> String {
    let mut text = String::new();
    let mut rest = form.text.as_str();
    while let Some((before, tail)) = rest.split_once('$') {
        text.push_str(before);
        let (kind, number) = (tail.as_bytes()[0], usize::from(tail.as_bytes()[1] - b'0'));
        rest = &tail[2..];
        match kind {
            b'a' => text.push_str(&expr(&form.args[number])),
            b'p' => text.push_str(&text_of_place(&form.places[number])),
            b'v' => {
                let _ = write!(text, "v{}", form.binds[number]);
            }
            _ => {
                let inner = block(&form.blocks[number], depth + 1);
                let _ = write!(text, "{{\n{inner}{}}}", "    ".repeat(depth));
            }
        }
    }
    text + rest
}

fn literal(ty: &Ty, bits: u128) -> String {
    match ty {
        Ty::Int(int) if int.signed => {
            let value = ((bits << (128 - int.bits)) as i128) >> (128 - int.bits);
            let unsigned = int.unsigned().name();
            if value < 0 {
                format!("(0x{:x}{unsigned} as {})", bits & int.mask(), int.name())
            } else {
                format!("{value}{}", int.name())
            }
        }
        Ty::Int(int) if bits > 0xffff => format!("0x{:x}{}", bits & int.mask(), int.name()),
        Ty::Int(int) => format!("{}{}", bits & int.mask(), int.name()),
        Ty::F16 => format!("F16(0x{:04x})", bits as u16),
        Ty::F32 => format!("f32::from_bits(0x{:08x})", bits as u32),
        Ty::F64 => format!("f64::from_bits(0x{:016x})", bits as u64),
        Ty::Bool => (bits & 1 == 1).to_string(),
        Ty::Char => format!("'\\u{{{:x}}}'", char::from_u32(bits as u32).map_or(0x78, u32::from)),
        Ty::Generic => format!("T::of({bits}u64)"),
        // Only numbers are literals.
        other => format!("({}, {bits})", other.name()),
    }
}
