//! fast-float2: decimal texts to the nearest float.

use super::out::Out;

pub fn parse(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    match ::fast_float2::parse_partial::<f64, _>(input) {
        Ok((value, used)) => {
            out.float(value);
            out.bytes(&(used as u32).to_le_bytes());
        }
        Err(_) => out.bytes(b"no f64"),
    }
    match ::fast_float2::parse::<f32, _>(input) {
        Ok(value) => out.single(value),
        Err(_) => out.bytes(b"no f32"),
    }
}
