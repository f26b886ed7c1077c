//! crc: tables made when the crate is compiled, of all widths.

use ::crc::{CRC_5_USB, CRC_8_BLUETOOTH, CRC_16_IBM_SDLC, CRC_32_ISCSI, CRC_64_XZ, CRC_82_DARC, Crc, Table};

use super::out::{Out, pieces};

static USB: Crc<u8> = Crc::<u8>::new(&CRC_5_USB);
static BLUETOOTH: Crc<u8> = Crc::<u8>::new(&CRC_8_BLUETOOTH);
static SDLC: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_SDLC);
static ISCSI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static XZ: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);
static DARC: Crc<u128> = Crc::<u128>::new(&CRC_82_DARC);

pub fn narrow(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    out.bytes(&[USB.checksum(input), BLUETOOTH.checksum(input)]);
    let mut digest = SDLC.digest();
    pieces(input, number).for_each(|piece| digest.update(piece));
    out.bytes(&digest.finalize().to_le_bytes());
    out.bytes(&ISCSI.checksum(input).to_le_bytes());
}

pub fn wide(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut digest = XZ.digest_with_initial(u64::from(number));
    pieces(input, number).for_each(|piece| digest.update(piece));
    out.number(digest.finalize());
    out.bytes(&DARC.checksum(input).to_le_bytes());
}
