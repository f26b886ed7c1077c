// What a native program writes for each case, numbers in little-endian order: the kernel's name, the case's number, its
// input, and the output that a kernel must give, each text and each piece of memory after its length. Included by
// programs that are built apart, so it needs nothing but `std`.

/// Appends one case to `to`.
pub fn write(to: &mut Vec<u8>, kernel: &str, number: u32, input: &[u8], output: &[u8]) {
    let mut bytes = |bytes: &[u8]| {
        to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        to.extend_from_slice(bytes);
    };
    bytes(kernel.as_bytes());
    bytes(&number.to_le_bytes());
    bytes(input);
    bytes(output);
}
