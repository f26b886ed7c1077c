//! Conversions between 128-bit integers and floats. On a CPU they are functions of the compiler's runtime library
//! (`__fixunssfti` and similar), which a GPU does not have: back ends reject them ("unsupported library call").
//!
//! Each becomes a call of a function of our own that shifts the float's bits. To a float it rounds to nearest, ties to even;
//! to an integer it truncates, saturates, and converts NaN to 0, like Rust's `as`.

use super::IrError;
use super::module::{Item, ItemKind, Module};

/// The bit layout of a float type (IEEE 754).
struct Float {
    /// LLVM's name.
    name: &'static str,
    /// The suffix of the intrinsics.
    suffix: &'static str,
    bits: u32,
    /// Bits of the fraction, without the implicit leading one.
    fraction: u32,
}

const FLOATS: [Float; 3] = [
    Float { name: "half", suffix: "f16", bits: 16, fraction: 10 },
    Float { name: "float", suffix: "f32", bits: 32, fraction: 23 },
    Float { name: "double", suffix: "f64", bits: 64, fraction: 52 },
];

/// Replaces every such conversion by a call.
pub(super) fn convert(module: &mut Module) -> Result<(), IrError> {
    let cases = || FLOATS.iter().flat_map(|float| ["u", "s"].map(|sign| (sign, float)));
    let intrinsics: Vec<String> = cases().map(|(sign, float)| saturating(sign, float)).collect();
    module.items.retain(|item| !item.symbol().is_some_and(|symbol| intrinsics.iter().any(|it| it == symbol)));
    let is_wide = |item: &&mut Item| matches!(item.kind, ItemKind::Function(_)) && item.text.contains("i128");
    let mut functions: Vec<&mut Item> = module.items.iter_mut().filter(is_wide).collect();
    let mut definitions = Vec::new();
    for (sign, float) in cases() {
        if call_to_float(&mut functions, sign, float) {
            definitions.push(define_to_float(sign, float));
        }
        if call_from_float(&mut functions, sign, float) {
            definitions.push(define_from_float(sign, float));
            if float.bits == 16 {
                definitions.push(define_from_float(sign, &FLOATS[1]));
            }
        }
    }
    if !definitions.is_empty() {
        definitions.push("declare i128 @llvm.ctlz.i128(i128, i1 immarg)".to_owned());
    }
    module.push_missing(&definitions)
}

/// Replaces conversions to `float` by calls. Returns whether there were any.
fn call_to_float(functions: &mut [&mut Item], sign: &str, float: &Float) -> bool {
    let function = to_float(sign, float);
    let mut has_one = false;
    for item in functions {
        if let Some(text) = call_instead(&item.text, &format!("{sign}itofp"), "i128", float.name, &function) {
            item.text = text;
            has_one = true;
        }
    }
    has_one
}

/// Replaces saturating and other conversions from `float` by calls. Returns whether there were any.
fn call_from_float(functions: &mut [&mut Item], sign: &str, float: &Float) -> bool {
    let (function, intrinsic) = (from_float(sign, float), saturating(sign, float));
    let mut has_one = false;
    for item in functions {
        if item.text.contains(&intrinsic) {
            item.text = item.text.replace(&format!("{intrinsic}("), &format!("@{function}("));
            has_one = true;
        }
        if let Some(text) = call_instead(&item.text, &format!("fpto{sign}i"), float.name, "i128", &function) {
            item.text = text;
            has_one = true;
        }
    }
    has_one
}

/// LLVM's conversion that saturates.
fn saturating(sign: &str, float: &Float) -> String {
    format!("@llvm.fpto{sign}i.sat.i128.{}", float.suffix)
}

fn to_float(sign: &str, float: &Float) -> String {
    format!("__ferrowarp_{sign}itofp_i128_{}", float.suffix)
}

fn from_float(sign: &str, float: &Float) -> String {
    format!("__ferrowarp_fpto{sign}i_i128_{}", float.suffix)
}

/// Replaces every `%r = OP FROM VALUE to TO` in `text` by a call of `function`, if there is one.
fn call_instead(text: &str, op: &str, from: &str, to: &str, function: &str) -> Option<String> {
    let (op, to_words) = (format!(" = {op} "), format!(" to {to}"));
    if !text.contains(&op) {
        return None;
    }
    let mut has_one = false;
    let lines = text.split('\n').map(|line| {
        let called = || {
            let (result, conversion) = line.split_once(&op)?;
            let conversion = conversion.strip_prefix("nneg ").unwrap_or(conversion);
            let value = conversion.strip_prefix(from)?.strip_prefix(' ')?;
            let (value, rest) = value.split_once(&to_words)?;
            let ends = rest.is_empty() || rest.starts_with(',');
            ends.then(|| format!("{result} = call {to} @{function}({from} {value}){rest}"))
        };
        let called = called();
        has_one |= called.is_some();
        called.unwrap_or_else(|| line.to_owned())
    });
    let lines: Vec<String> = lines.collect();
    has_one.then(|| lines.join("\n"))
}

/// From an integer: its highest bits become the fraction, and the bits cut off decide the rounding. A carry out of the
/// fraction correctly increases the exponent.
fn define_to_float(sign: &str, float: &Float) -> String {
    let Float { name, bits, fraction, .. } = float;
    let function = to_float(sign, float);
    let magnitude = match sign {
        "s" => {
            "  %is_negative = icmp slt i128 %x, 0\n  %negated = sub i128 0, %x\n  \
             %a = select i1 %is_negative, i128 %negated, i128 %x\n"
        }
        _ => "  %is_negative = icmp ult i128 %x, 0\n  %a = add i128 %x, 0\n",
    };
    let body = if float.bits == 16 {
        // Everything beyond its range becomes infinite; below 2^17 a 32-bit integer suffices.
        "  %is_huge = icmp ugt i128 %a, 65536\n  %cut = select i1 %is_huge, i128 65536, i128 %a\n  \
           %small = trunc i128 %cut to i32\n  %positive = uitofp i32 %small to half\n  \
           %unsigned = bitcast half %positive to i16\n"
            .to_owned()
    } else {
        let low = 128 - (fraction + 1);
        // The leading one adds 1 to the exponent, so the exponent is one less here.
        let exponent_of_top = (1_u64 << (bits - fraction - 2)) - 1 + 127 - 1;
        format!(
            "  %zeros = call i128 @llvm.ctlz.i128(i128 %a, i1 false)\n  \
               %shift = and i128 %zeros, 127\n  \
               %aligned = shl i128 %a, %shift\n  \
               %top = lshr i128 %aligned, {low}\n  \
               %rest = shl i128 %aligned, {kept}\n  \
               %is_above = icmp ugt i128 %rest, {half}\n  \
               %is_tie = icmp eq i128 %rest, {half}\n  \
               %is_odd = trunc i128 %top to i1\n  \
               %is_tie_of_odd = and i1 %is_tie, %is_odd\n  \
               %is_up = or i1 %is_above, %is_tie_of_odd\n  \
               %up = zext i1 %is_up to i{bits}\n  \
               %kept = trunc i128 %top to i{bits}\n  \
               %zeros_here = trunc i128 %zeros to i{bits}\n  \
               %exponent = sub i{bits} {exponent_of_top}, %zeros_here\n  \
               %in_place = shl i{bits} %exponent, {fraction}\n  \
               %exact = add i{bits} %in_place, %kept\n  \
               %rounded = add i{bits} %exact, %up\n  \
               %is_zero = icmp eq i128 %a, 0\n  \
               %unsigned = select i1 %is_zero, i{bits} 0, i{bits} %rounded\n",
            kept = fraction + 1,
            half = 1_u128 << 127,
        )
    };
    let sign_bit = 1_u64 << (bits - 1);
    format!(
        "define internal {name} @{function}(i128 %x) {{\n{magnitude}{body}  \
           %sign = select i1 %is_negative, i{bits} {sign_bit}, i{bits} 0\n  \
           %all = or i{bits} %unsigned, %sign\n  \
           %result = bitcast i{bits} %all to {name}\n  ret {name} %result\n}}"
    )
}

/// To an integer: shifts the fraction, with its leading one, by the exponent.
fn define_from_float(sign: &str, float: &Float) -> String {
    let function = from_float(sign, float);
    if float.bits == 16 {
        return format!(
            "define internal i128 @{function}(half %x) {{\n  %wide = fpext half %x to float\n  \
               %result = call i128 @{of_float}(float %wide)\n  ret i128 %result\n}}",
            of_float = from_float(sign, &FLOATS[1]),
        );
    }
    let Float { name, bits, fraction, .. } = float;
    let exponent_mask = (1_u64 << (bits - fraction - 1)) - 1;
    let bias = exponent_mask >> 1;
    let (fraction_mask, leading) = ((1_u64 << fraction) - 1, 1_u64 << fraction);
    let magnitude_mask = (1_u64 << (bits - 1)) - 1;
    let is_signed = sign == "s";
    // The smallest exponent that reaches the integer's limit.
    let limit = bias + if is_signed { 127 } else { 128 };
    let largest = if is_signed { i128::MAX as u128 } else { u128::MAX };
    let (of_negative, least) = if is_signed { ("%negated", 1_u128 << 127) } else { ("0", 0) };
    format!(
        "define internal i128 @{function}({name} %x) {{\n  \
           %all = bitcast {name} %x to i{bits}\n  \
           %unsigned = and i{bits} %all, {magnitude_mask}\n  \
           %exponent = lshr i{bits} %unsigned, {fraction}\n  \
           %stored = and i{bits} %unsigned, {fraction_mask}\n  \
           %significand = or i{bits} %stored, {leading}\n  \
           %wide = zext i{bits} %significand to i128\n  \
           %left = sub i{bits} %exponent, {at_unit}\n  \
           %right = sub i{bits} {at_unit}, %exponent\n  \
           %left_wide = zext i{bits} %left to i128\n  \
           %left_shift = and i128 %left_wide, 127\n  \
           %right_wide = zext i{bits} %right to i128\n  \
           %right_shift = and i128 %right_wide, 127\n  \
           %large = shl i128 %wide, %left_shift\n  \
           %small = lshr i128 %wide, %right_shift\n  \
           %is_small = icmp ult i{bits} %exponent, {at_unit}\n  \
           %magnitude = select i1 %is_small, i128 %small, i128 %large\n  \
           %negated = sub i128 0, %magnitude\n  \
           %is_negative = icmp slt i{bits} %all, 0\n  \
           %within = select i1 %is_negative, i128 {of_negative}, i128 %magnitude\n  \
           %end = select i1 %is_negative, i128 {least}, i128 {largest}\n  \
           %is_beyond = icmp uge i{bits} %exponent, {limit}\n  \
           %ended = select i1 %is_beyond, i128 %end, i128 %within\n  \
           %is_below_one = icmp ult i{bits} %exponent, {bias}\n  \
           %is_nan = fcmp uno {name} %x, %x\n  \
           %is_zero = or i1 %is_below_one, %is_nan\n  \
           %result = select i1 %is_zero, i128 0, i128 %ended\n  \
           ret i128 %result\n}}",
        at_unit = bias + u64::from(*fraction),
    )
}
