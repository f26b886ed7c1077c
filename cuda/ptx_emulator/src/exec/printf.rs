//! C's formats, as a device's `vprintf` takes them (CUDA C++ Programming Guide, "Formatted Output").

use super::grid::Exec;
use super::thread::Cx;
use crate::error::Cause;

/// The values behind `vprintf`'s pointer, each aligned to its size.
struct Values<'c> {
    cx: &'c Cx<'c>,
    next: u64,
    count: u64,
}

impl Values<'_> {
    fn take(&mut self, bytes: u64) -> Exec<u64> {
        let at = self.next.next_multiple_of(bytes);
        self.next = at + bytes;
        self.count += 1;
        self.cx.read(at, bytes)
    }
}

/// The part of a conversion between the percent sign and the type's letter.
#[derive(Clone, Debug, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer.
    bytes: u64,
}

/// Formats the values at `values` with the format at the address `format`. Returns the text and the number of values.
pub(crate) fn format(cx: &Cx<'_>, format: u64, values: u64) -> Exec<(Vec<u8>, u64)> {
    let format = cx.c_text(format)?;
    let mut values = Values { cx, next: values, count: 0 };
    let (mut text, mut rest) = (Vec::new(), format.as_slice());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            text.push(byte);
        } else if let Some(behind) = rest.strip_prefix(b"%") {
            text.push(b'%');
            rest = behind;
        } else {
            let (spec, behind) = spec(rest, &mut values)?;
            let Some((&kind, behind)) = behind.split_first() else { return Err(unknown(&format)) };
            rest = behind;
            text.extend(one(&spec, kind, &mut values)?.ok_or_else(|| unknown(&format))?);
        }
    }
    Ok((text, values.count))
}

fn unknown(format: &[u8]) -> Box<Cause> {
    Cause::Unsupported(format!("`vprintf` with the format {:?}", String::from_utf8_lossy(format))).into()
}

fn spec<'f>(mut rest: &'f [u8], values: &mut Values<'_>) -> Exec<(Spec, &'f [u8])> {
    let mut spec = Spec { bytes: 4, ..Spec::default() };
    while let Some((flag, behind)) = rest.split_first() {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        rest = behind;
    }
    if let Some(behind) = rest.strip_prefix(b"*") {
        let width = values.take(4)? as i32;
        spec.left |= width < 0;
        (spec.width, rest) = (width.unsigned_abs() as usize, behind);
    } else {
        (spec.width, rest) = number(rest);
    }
    if let Some(behind) = rest.strip_prefix(b".") {
        let (precision, behind) = number(behind);
        (spec.precision, rest) = (Some(precision), behind);
    }
    for (size, bytes) in [(&b"hh"[..], 1), (b"h", 2), (b"ll", 8), (b"l", 8)] {
        if let Some(behind) = rest.strip_prefix(size) {
            (spec.bytes, rest) = (bytes, behind);
            break;
        }
    }
    Ok((spec, rest))
}

/// Splits off the decimal number at the start.
fn number(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value =
        text[..digits].iter().fold(0usize, |n, digit| n.saturating_mul(10) + usize::from(digit - b'0'));
    (value.min(1 << 16), &text[digits..])
}

/// Formats one value; `None` if its type is not known.
fn one(spec: &Spec, kind: u8, values: &mut Values<'_>) -> Exec<Option<Vec<u8>>> {
    Ok(Some(match kind {
        b'c' => padded(spec, "", vec![values.take(4)? as u8], false),
        b's' => {
            let address = values.take(8)?;
            let mut text = values.cx.c_text(address)?;
            text.truncate(spec.precision.unwrap_or(usize::MAX));
            padded(spec, "", text, false)
        }
        b'p' => padded(spec, "0x", format!("{:x}", values.take(8)?).into(), false),
        b'd' | b'i' => {
            let value = integer(spec, values)?;
            let shift = 64 - 8 * spec.bytes as u32;
            let value = (value << shift) as i64 >> shift;
            digits(spec, sign(spec, value < 0), value.unsigned_abs().to_string())
        }
        b'u' => digits(spec, "", integer(spec, values)?.to_string()),
        b'o' => {
            let octal = format!("{:o}", integer(spec, values)?);
            let prefix = if spec.alternate && !octal.starts_with('0') { "0" } else { "" };
            digits(spec, prefix, octal)
        }
        b'x' | b'X' => {
            let value = integer(spec, values)?;
            let prefix = if spec.alternate && value != 0 { "0x" } else { "" };
            let text = digits(spec, prefix, format!("{value:x}"));
            if kind == b'X' { text.to_ascii_uppercase() } else { text }
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => {
            let text = float(spec, kind.to_ascii_lowercase(), f64::from_bits(values.take(8)?));
            if kind.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
        }
        _ => return Ok(None),
    }))
}

/// An integer of the format's size; small ones are passed as four bytes.
fn integer(spec: &Spec, values: &mut Values<'_>) -> Exec<u64> {
    let value = values.take(spec.bytes.max(4))?;
    Ok(value & (u64::MAX >> (64 - 8 * spec.bytes)))
}

fn sign(spec: &Spec, is_negative: bool) -> &'static str {
    match (is_negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

/// The digits of an integer, padded with zeros to the precision.
fn digits(spec: &Spec, prefix: &str, digits: String) -> Vec<u8> {
    let least = spec.precision.unwrap_or(1);
    let digits = if least == 0 && digits == "0" { String::new() } else { format!("{digits:0>least$}") };
    padded(spec, prefix, digits.into(), spec.precision.is_none())
}

fn float(spec: &Spec, kind: u8, value: f64) -> Vec<u8> {
    let sign = sign(spec, value.is_sign_negative());
    let value = value.abs();
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        return padded(spec, sign, text.into(), false);
    }
    let precision = spec.precision.unwrap_or(6);
    let text = match kind {
        b'f' => fixed(value, precision, spec.alternate),
        b'e' => exponential(value, precision, spec.alternate),
        _ => general(value, precision.max(1), spec.alternate),
    };
    padded(spec, sign, text.into(), true)
}

fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{point}")
}

fn exponential(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if alternate && precision == 0 { "." } else { "" };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}{point}e{sign}{digits:0>2}")
}

/// The shorter form, with `precision` digits, without trailing zeros.
fn general(value: f64, precision: usize, alternate: bool) -> String {
    let rounded = format!("{value:.*e}", precision - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let text = exponential(value, precision - 1, alternate);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", if alternate { mantissa } else { without_zeros(mantissa) });
    }
    let text = fixed(value, (precision as i32 - 1 - exponent) as usize, alternate);
    if alternate { text } else { without_zeros(&text).to_owned() }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The text with its prefix, padded to the width.
fn padded(spec: &Spec, prefix: &str, text: Vec<u8>, may_zero: bool) -> Vec<u8> {
    let missing = spec.width.saturating_sub(prefix.len() + text.len());
    let [blanks, zeros] = match (spec.left, spec.zero && may_zero) {
        (false, false) => [missing, 0],
        (false, true) => [0, missing],
        (true, _) => [0, 0],
    };
    let mut all = vec![b' '; blanks];
    all.extend(prefix.bytes());
    all.extend(core::iter::repeat_n(b'0', zeros));
    all.extend(text);
    all.extend(core::iter::repeat_n(b' ', if spec.left { missing } else { 0 }));
    all
}
