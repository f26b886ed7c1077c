//! Prints programs as source text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::ast::*;

/// The source of one program: its part in the kernel crate, and its part in the crate that this depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A module with `pub fn run(input: &[u8; 64], s: &mut Sink<'_>)`.
    pub program: String,
    /// A module of the other crate.
    pub helper: String,
}

const HEAD: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";

/// Prints a program; `number` is its module's number in the other crate.
pub fn source(program: &Program, number: usize) -> Source {
    let used = reachable(program);
    let (mut own, mut other) = (String::new(), String::new());
    for (index, function) in program.functions.iter().enumerate().filter(|(index, _)| used.contains(index)) {
        let to = if function.elsewhere { &mut other } else { &mut own };
        to.push_str(&text_of_function(function, &format!("pub fn f{index}")));
    }
    let inline = if program.main_inline { "#[inline(never)]\n" } else { "" };
    own.push_str(inline);
    own.push_str("pub fn run(input: &[u8; 64], s: &mut Sink<'_>) {\n");
    own.push_str(&block(&program.main, 1));
    own.push_str("}\n");
    let types = definitions(program, &format!("{own}{other}"));
    let (own_types, other_types) =
        if program.types_elsewhere { (String::new(), types) } else { (types, String::new()) };
    own = format!("{HEAD}use helper::h{number}::*;\nuse helper::rt::*;\n\n{own_types}{own}");
    other = format!("{HEAD}use crate::rt::*;\n\n{other_types}{other}");
    Source { program: own, helper: other }
}

/// The functions that `main` and the methods call, directly or not.
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

/// The structures, enums and tables that the functions name, and the trait if they call its methods.
fn definitions(program: &Program, functions: &str) -> String {
    let of_trait = if [".m0(", ".m1("].iter().any(|call| functions.contains(call)) {
        text_of_trait(program)
    } else {
        String::new()
    };
    let is_named = |name: String| functions.contains(&name) || of_trait.contains(&name);
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (number, structure) in program.structs.iter().enumerate() {
        if !is_named(format!("S{number}")) {
            continue;
        }
        text.push_str(&text_of_structure(program, number, structure));
    }
    for (number, enumeration) in program.enums.iter().enumerate() {
        if !is_named(format!("E{number}")) {
            continue;
        }
        text.push_str(&text_of_enum(program, number, enumeration));
    }
    for (number, table) in program.statics.iter().enumerate() {
        if !is_named(format!("T{number}")) {
            continue;
        }
        let element = table.first().map_or_else(|| "u8".to_owned(), |first| first.ty.name());
        let values: Vec<String> = table.iter().map(expr).collect();
        let _ =
            writeln!(text, "pub static T{number}: [{element}; {}] = [{}];", table.len(), values.join(", "));
    }
    text + &of_trait
}

/// The derive attributes of a type.
fn derives(program: &Program, ty: &Ty) -> &'static str {
    if program.is_ordered(ty) {
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n"
    } else {
        "#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]\n"
    }
}

fn text_of_structure(program: &Program, number: usize, structure: &Structure) -> String {
    let mut text = derives(program, &Ty::Struct(number)).to_owned();
    if structure.is_packed {
        text.push_str("#[repr(C, packed)]\n");
    }
    let fields = &structure.fields;
    let _ = writeln!(text, "pub struct S{number} {{");
    for (i, field) in fields.iter().enumerate() {
        let _ = writeln!(text, "    pub f{i}: {},", field.name());
    }
    // Copies each field, because fields of a packed structure must not be borrowed.
    let emit: String = (0..fields.len()).map(|i| format!("let x = self.f{i}; x.emit(s); ")).collect();
    let mix: String =
        (0..fields.len()).map(|i| format!("let x = self.f{i}; let hash = x.mix(hash); ")).collect();
    let _ = writeln!(
        text,
        "}}\nimpl Emit for S{number} {{\n    fn emit(&self, s: &mut Sink<'_>) {{ {emit}}}\n    \
         fn mix(&self, hash: u64) -> u64 {{ {mix}hash }}\n}}"
    );
    text
}

/// An enum, and two functions that take it by value.
fn text_of_enum(program: &Program, number: usize, enumeration: &Enumeration) -> String {
    let mut text = derives(program, &Ty::Enum(number)).to_owned();
    if let Some(int) = enumeration.repr {
        let _ = writeln!(text, "#[repr({})]", int.name());
    }
    let _ = writeln!(text, "pub enum E{number} {{");
    let (mut emits, mut mixes) = (String::new(), String::new());
    for (i, Variant { data, discriminant }) in enumeration.variants.iter().enumerate() {
        let types: Vec<String> = data.iter().map(Ty::name).collect();
        let names: Vec<String> = (0..data.len()).map(|i| format!("x{i}")).collect();
        let in_parentheses = |all: &[String]| {
            if all.is_empty() { String::new() } else { format!("({})", all.join(", ")) }
        };
        let (types, binds) = (in_parentheses(&types), in_parentheses(&names));
        let value = discriminant.map_or_else(String::new, |value| format!(" = {value}"));
        let _ = writeln!(text, "    V{i}{types}{value},");
        let emit: String = names.iter().map(|name| format!(" {name}.emit(s);")).collect();
        let _ = writeln!(emits, "            E{number}::V{i}{binds} => {{ s.word({i});{emit} }}");
        let mix = names.iter().fold(format!("{i}u8.mix(hash)"), |hash, name| format!("{name}.mix({hash})"));
        let _ = writeln!(mixes, "            E{number}::V{i}{binds} => {mix},");
    }
    let other = expr(&super::edit::simplest(&Ty::Enum(number), program));
    let _ = writeln!(
        text,
        "}}\nimpl Emit for E{number} {{\n    fn emit(&self, s: &mut Sink<'_>) {{\n        match self {{\n{emits}        }}\n    }}\n    \
         fn mix(&self, hash: u64) -> u64 {{\n        match self {{\n{mixes}        }}\n    }}\n}}\n\
         #[inline(never)]\npub fn value_of_e{number}(e: E{number}) -> u64 {{\n    let hash = 3;\n    match e {{\n{mixes}    }}\n}}\n\
         #[inline(never)]\npub fn pass_e{number}(e: E{number}, k: u64) -> E{number} {{\n    \
         if value_of_e{number}(e) % 3 == k % 3 {{ {other} }} else {{ e }}\n}}"
    );
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

/// A value as text, in parentheses where precedence requires them.
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

/// The text of a form, with its holes filled.
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
        Ty::F16 | Ty::Bf16 => format!("{}(0x{:04x})", ty.name(), bits as u16),
        Ty::F32 => format!("f32::from_bits(0x{:08x})", bits as u32),
        Ty::F64 => format!("f64::from_bits(0x{:016x})", bits as u64),
        Ty::Bool => (bits & 1 == 1).to_string(),
        Ty::Char => format!("'\\u{{{:x}}}'", char::from_u32(bits as u32).map_or(0x78, u32::from)),
        Ty::Generic => format!("T::of({bits}u64)"),
        // Only numbers are literals.
        other => format!("({}, {bits})", other.name()),
    }
}
