//! Remainders of floats, `frem`: `%` in Rust.
//!
//! LLVM defines `frem` as C's `fmod`, which is exact. Both back ends compute `x - trunc(x / y) * y` instead, which is wrong
//! as soon as the quotient is rounded: `5e8 % 3.0` in `f32` is -16. No kernel of `gpu-kernels` computes a remainder of
//! floats; `GpuFloat::rem_euclid` and `GpuFloat::div_euclid` do.
//!
//! Each `frem` becomes a call of a function of our own that computes in integers, so no float option changes the result:
//! subnormal numbers are kept even with `ftz`.

use super::IrError;
use super::lex::{Kind, Token, closing, lex, split_at_commas};
use super::module::{ItemKind, Module};

/// The bit layout of a float type (IEEE 754).
struct Float {
    /// LLVM's name.
    name: &'static str,
    /// The suffix of our function.
    suffix: &'static str,
    bits: u32,
    /// Bits of the fraction, without the implicit leading one.
    fraction: u32,
}

/// The types that remainders are computed in.
const FLOATS: [Float; 2] = [
    Float { name: "float", suffix: "f32", bits: 32, fraction: 23 },
    Float { name: "double", suffix: "f64", bits: 64, fraction: 52 },
];

/// The types with remainders computed in `float`, which are exact in these types: LLVM's name and our suffix.
const NARROW: [(&str, &str); 2] = [("half", "f16"), ("bfloat", "bf16")];

/// Replaces every remainder of floats by a call.
pub(super) fn call(module: &mut Module) -> Result<(), IrError> {
    let mut used: Vec<&str> = Vec::new();
    let mut count = 0;
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        if !item.text.contains(" = frem ") {
            continue;
        }
        let mut text = String::with_capacity(item.text.len() * 2);
        for line in item.text.split_inclusive('\n') {
            match Remainder::read(line) {
                Some(remainder) => {
                    count += 1;
                    remainder.write_calls(&mut text, count);
                    used.push(remainder.suffix);
                }
                None => text.push_str(line),
            }
        }
        item.text = text;
    }
    let is_used = |suffix: &str| used.contains(&suffix);
    let mut definitions = Vec::new();
    let mut calls_f32 = is_used("f32");
    for (name, suffix) in NARROW.into_iter().filter(|(_, suffix)| is_used(suffix)) {
        calls_f32 = true;
        definitions.push(define_narrow(name, suffix));
    }
    for float in FLOATS {
        if if float.bits == 32 { calls_f32 } else { is_used(float.suffix) } {
            definitions.push(define(&float));
            definitions.push(format!("declare i{0} @llvm.ctlz.i{0}(i{0}, i1 immarg)", float.bits));
        }
    }
    module.push_missing(&definitions)
}

fn function(suffix: &str) -> String {
    format!("@__ferrowarp_frem_{suffix}")
}

/// `%r = frem TYPE X, Y`, optionally with flags and metadata.
struct Remainder<'a> {
    /// The result's name.
    result: &'a str,
    /// The type of one element, and our suffix for it.
    element: &'a str,
    suffix: &'static str,
    /// The whole type and the number of its elements, for a vector.
    vector: Option<(&'a str, usize)>,
    operands: [&'a str; 2],
    /// The text after the second operand: metadata and the end of the line.
    rest: &'a str,
}

impl<'a> Remainder<'a> {
    fn read(line: &'a str) -> Option<Remainder<'a>> {
        if !line.contains(" = frem ") {
            return None;
        }
        let tokens = lex(line);
        let [result, equals, frem, ..] = tokens.as_slice() else { return None };
        if result.kind != Kind::Local || !equals.is("=") || !frem.is("frem") {
            return None;
        }
        // Fast-math flags are between the instruction and its type. They only permit less exact results.
        let at = 3 + tokens[3..].iter().position(|token| suffix(token.text).is_some() || token.is("<"))?;
        let (element, vector, operands_at) = if tokens[at].is("<") {
            let close = closing(&tokens, at)?;
            let [count, x, element] = &tokens[at + 1..close] else { return None };
            let count = count.text.parse().ok().filter(|_| x.is("x"))?;
            let whole = &line[tokens[at].start..tokens[close].end()];
            (element.text, Some((whole, count)), close + 1)
        } else {
            (tokens[at].text, None, at + 1)
        };
        let operands = &tokens[operands_at..];
        let parts = split_at_commas(operands);
        let text = |part: &[Token<'a>]| Some(&line[part.first()?.start..part.last()?.end()]);
        let left = text(&operands[parts.first()?.clone()])?;
        let right = &operands[parts.get(1)?.clone()];
        Some(Remainder {
            result: result.text,
            element,
            suffix: suffix(element)?,
            vector,
            operands: [left, text(right)?],
            rest: &line[right.last()?.end()..],
        })
    }

    /// Writes a call, or one for each element of a vector, which is then assembled from them.
    fn write_calls(&self, text: &mut String, number: usize) {
        let Remainder { result, element, suffix, vector, operands: [x, y], rest } = self;
        let function = function(suffix);
        let Some((vector, count)) = vector else {
            *text += &format!("  {result} = call {element} {function}({element} {x}, {element} {y}){rest}");
            return;
        };
        // No name in the source has a space.
        let name = |what: &str, lane: usize| format!("%\"{what} {lane} of remainder {number}\"");
        let end = rest.trim_end_matches('\n');
        let mut made = "poison".to_owned();
        for lane in 0..*count {
            let [left, right, called] = ["left", "right", "call"].map(|what| name(what, lane));
            let with = if lane + 1 == *count { (*result).to_owned() } else { name("with", lane) };
            *text += &format!(
                "  {left} = extractelement {vector} {x}, i32 {lane}\n  \
                   {right} = extractelement {vector} {y}, i32 {lane}\n  \
                   {called} = call {element} {function}({element} {left}, {element} {right}){end}\n  \
                   {with} = insertelement {vector} {made}, {element} {called}, i32 {lane}\n"
            );
            made = with;
        }
    }
}

/// Our suffix for a float type, if there is a function for it.
fn suffix(name: &str) -> Option<&'static str> {
    let wide = FLOATS.iter().map(|float| (float.name, float.suffix));
    wide.chain(NARROW).find(|(known, _)| *known == name).map(|(_, suffix)| suffix)
}

/// Computes in `float`, which holds both numbers and the remainder exactly.
fn define_narrow(name: &str, suffix: &str) -> String {
    format!(
        "define internal {name} {function}({name} %x, {name} %y) {{\n  \
           %wide_x = fpext {name} %x to float\n  \
           %wide_y = fpext {name} %y to float\n  \
           %wide = call float {of_float}(float %wide_x, float %wide_y)\n  \
           %result = fptrunc float %wide to {name}\n  ret {name} %result\n}}",
        function = function(suffix),
        of_float = function("f32"),
    )
}

/// Long division of the significands: appends zero bits to the rest and subtracts multiples of the divisor, with as many
/// bits at a time as fit into 64, until the exponents are equal.
fn define(float: &Float) -> String {
    let Float { name, suffix, bits, fraction } = float;
    let function = function(suffix);
    let sign = 1_u64 << (bits - 1);
    let magnitude = sign - 1;
    let (leading, fraction_mask) = (1_u64 << fraction, (1_u64 << fraction) - 1);
    let infinity = magnitude & !fraction_mask;
    // The rest has as many bits as a significand.
    let at_once = 64 - (fraction + 1);
    let above = bits - 1 - fraction;
    let wide = |result: &str, value: &str| match bits {
        64 => format!("  {result} = add i64 {value}, 0\n"),
        _ => format!("  {result} = zext i{bits} {value} to i64\n"),
    };
    let narrow = match bits {
        64 => "  %rest = add i64 %wide_rest, 0\n".to_owned(),
        _ => format!("  %rest = trunc i64 %wide_rest to i{bits}\n"),
    };
    let parts = |of: &str| {
        format!(
            "  %{of}_stored = lshr i{bits} %{of}_size, {fraction}\n  \
               %{of}_is_normal = icmp ne i{bits} %{of}_stored, 0\n  \
               %{of}_exponent = select i1 %{of}_is_normal, i{bits} %{of}_stored, i{bits} 1\n  \
               %{of}_fraction = and i{bits} %{of}_size, {fraction_mask}\n  \
               %{of}_leading = select i1 %{of}_is_normal, i{bits} {leading}, i{bits} 0\n  \
               %{of}_significand = or i{bits} %{of}_fraction, %{of}_leading\n{}",
            wide(&format!("%{of}_wide"), &format!("%{of}_significand"))
        )
    };
    format!(
        "define internal {name} {function}({name} %x, {name} %y) {{\n\
         start:\n  \
           %x_bits = bitcast {name} %x to i{bits}\n  \
           %y_bits = bitcast {name} %y to i{bits}\n  \
           %x_size = and i{bits} %x_bits, {magnitude}\n  \
           %y_size = and i{bits} %y_bits, {magnitude}\n  \
           %y_is_zero = icmp eq i{bits} %y_size, 0\n  \
           %y_is_nan = icmp ugt i{bits} %y_size, {infinity}\n  \
           %x_is_not_finite = icmp uge i{bits} %x_size, {infinity}\n  \
           %y_is_no_divisor = or i1 %y_is_zero, %y_is_nan\n  \
           %is_undefined = or i1 %y_is_no_divisor, %x_is_not_finite\n  \
           br i1 %is_undefined, label %nan, label %defined\n\
         nan:\n  \
           ret {name} 0x7FF8000000000000\n\
         defined:\n  \
           %is_smaller = icmp ult i{bits} %x_size, %y_size\n  \
           br i1 %is_smaller, label %smaller, label %divide\n\
         smaller:\n  \
           ret {name} %x\n\
         divide:\n\
         {x_parts}{y_parts}  \
           %places = sub i{bits} %x_exponent, %y_exponent\n  \
           br label %step\n\
         step:\n  \
           %before = phi i64 [ %x_wide, %divide ], [ %wide_rest, %step ]\n  \
           %left = phi i{bits} [ %places, %divide ], [ %left_then, %step ]\n  \
           %is_last = icmp ule i{bits} %left, {at_once}\n  \
           %shift = select i1 %is_last, i{bits} %left, i{bits} {at_once}\n\
         {wide_shift}  \
           %shifted = shl i64 %before, %wide_shift\n  \
           %wide_rest = urem i64 %shifted, %y_wide\n  \
           %left_then = sub i{bits} %left, %shift\n  \
           br i1 %is_last, label %done, label %step\n\
         done:\n\
         {narrow}  \
           %zeros = call i{bits} @llvm.ctlz.i{bits}(i{bits} %rest, i1 false)\n  \
           %to_leading = sub i{bits} %zeros, {above}\n  \
           %to_least = sub i{bits} %y_exponent, 1\n  \
           %is_normal = icmp ult i{bits} %to_leading, %to_least\n  \
           %up = select i1 %is_normal, i{bits} %to_leading, i{bits} %to_least\n  \
           %aligned = shl i{bits} %rest, %up\n  \
           %exponent = sub i{bits} %to_least, %up\n  \
           %in_place = shl i{bits} %exponent, {fraction}\n  \
           %not_zero = add i{bits} %aligned, %in_place\n  \
           %is_zero = icmp eq i{bits} %rest, 0\n  \
           %size = select i1 %is_zero, i{bits} 0, i{bits} %not_zero\n  \
           %sign = and i{bits} %x_bits, {sign}\n  \
           %result_bits = or i{bits} %size, %sign\n  \
           %result = bitcast i{bits} %result_bits to {name}\n  \
           ret {name} %result\n}}",
        x_parts = parts("x"),
        y_parts = parts("y"),
        wide_shift = wide("%wide_shift", "%shift"),
    )
}
