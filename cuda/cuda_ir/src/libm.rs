//! Redirects calls of the crate `libm` to libdevice's functions of the same name. They use instructions and short
//! polynomials, while libm computes as for a processor without a floating-point unit.
//!
//! The results are libdevice's, which differ from libm's in the last bits for most functions (CUDA math API, "accuracy").

use super::lex::{Kind, Token, split_at_commas};
use super::module::{FunctionHeader, ItemKind, Module};
use super::panics::without_debug_info;
use super::path_of;

/// The functions that both have under one name for `f64`, and with an `f` appended for `f32`; all parameters and results are
/// floats of one width.
const SAME: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "j0",
    "j1",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "nextafter",
    "pow",
    "remainder",
    "rint",
    "round",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
    "y0",
    "y1",
];

/// Replaces the bodies of libm's functions by calls of libdevice's.
pub(super) fn override_calls(module: &mut Module) {
    let mut declared = Vec::new();
    for item in &mut module.items {
        let ItemKind::Function(symbol) = &item.kind else { continue };
        let Some(name) = path_of(symbol).and_then(|path| function_of_libm(&path)) else { continue };
        let header = without_debug_info(item.header());
        let Some((ty, parameters)) = signature(&header) else { continue };
        let is_f32 = !SAME.contains(&name.as_str());
        if is_f32 != (ty == "float") {
            continue;
        }
        let list = |with_names: bool| {
            let each =
                parameters.iter().map(|p| if with_names { format!("{ty} {p}") } else { ty.to_owned() });
            each.collect::<Vec<_>>().join(", ")
        };
        let body = format!("  %result = call {ty} @__nv_{name}({})\n  ret {ty} %result\n", list(true));
        declared.push((name.clone(), format!("declare {ty} @__nv_{name}({})", list(false))));
        item.text = format!("{header}\nstart:\n{body}}}");
    }
    for (name, declaration) in declared {
        let symbol = format!("@__nv_{name}");
        if !module.items.iter().any(|item| item.symbol() == Some(&symbol)) {
            // The text is a declaration, so it parses.
            let _ = module.push(declaration);
        }
    }
}

/// The name of the function in `libm::math::sin::sin`, if libdevice has it too.
fn function_of_libm(path: &str) -> Option<String> {
    let name = path.strip_prefix("libm::math::")?.rsplit("::").next()?;
    let of_f64 = if SAME.contains(&name) { name } else { name.strip_suffix('f')? };
    SAME.contains(&of_f64).then(|| name.to_owned())
}

/// The common type of all parameters and the result, `float` or `double`, and the parameters' names.
fn signature(header: &str) -> Option<(&'static str, Vec<&str>)> {
    let parsed = FunctionHeader::parse(header).ok()?;
    let is_float = |token: &&Token<'_>| token.is("float") || token.is("double");
    let result = parsed.tokens[..parsed.name].iter().rfind(is_float)?;
    let ty = if result.is("float") { "float" } else { "double" };
    let inner = &parsed.tokens[parsed.name + 2..parsed.close];
    let parts = split_at_commas(inner);
    let fits = |part: &std::ops::Range<usize>| inner[part.clone()].first().is_some_and(|first| first.is(ty));
    let has_names = inner.iter().filter(|token| token.kind == Kind::Local).count() == parts.len();
    (has_names && parts.iter().all(fits)).then(|| (ty, parsed.parameters()))
}
