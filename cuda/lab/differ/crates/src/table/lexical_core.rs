//! lexical-core: numbers to texts and back.

use super::out::{Out, array};

pub fn parse(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    match ::lexical_core::parse_partial::<f64>(input) {
        Ok((value, used)) => {
            out.float(value);
            out.bytes(&[used as u8]);
        }
        Err(_) => out.bytes(b"no f64"),
    }
    match ::lexical_core::parse::<f32>(input) {
        Ok(value) => out.single(value),
        Err(_) => out.bytes(b"no f32"),
    }
    match ::lexical_core::parse::<i64>(input) {
        Ok(value) => out.bytes(&value.to_le_bytes()),
        Err(error) => out.number(error.index().copied().unwrap_or(99) as u64),
    }
    match ::lexical_core::parse::<u8>(input) {
        Ok(value) => out.bytes(&[value]),
        Err(_) => out.bytes(b"no u8"),
    }
}

pub fn write(input: &[u8], number: u32, output: &mut [u8]) {
    let wide = u128::from_le_bytes(array(input, 0)) >> (number % 100);
    let mut text = [0; ::lexical_core::BUFFER_SIZE];
    let mut out = Out::new(output);
    out.bytes(::lexical_core::write(wide as u16, &mut text));
    out.bytes(::lexical_core::write(wide as i32, &mut text));
    out.bytes(::lexical_core::write(wide as u64, &mut text));
    out.bytes(::lexical_core::write(wide as i128, &mut text));
    out.bytes(::lexical_core::write(f32::from_bits(wide as u32), &mut text));
    out.bytes(b" ");
    out.bytes(::lexical_core::write(f64::from_bits(wide as u64), &mut text));
}
