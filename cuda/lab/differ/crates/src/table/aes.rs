//! aes: the portable implementation, sliced into bits.

use ::aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use ::aes::{Aes128, Aes256, Block};

use super::out::array;

/// Encrypts a block and decrypts two.
fn both<C: KeyInit + BlockEncrypt + BlockDecrypt>(cipher: &C, input: &[u8], output: &mut [u8])
where
    C: BlockEncrypt + BlockDecrypt + ::aes::cipher::BlockSizeUser<BlockSize = ::aes::cipher::consts::U16>,
{
    let mut blocks = [0, 16, 32].map(|at| Block::from(array::<16>(input, at)));
    cipher.encrypt_block(&mut blocks[0]);
    cipher.decrypt_blocks(&mut blocks[1..]);
    for (to, block) in output.chunks_exact_mut(16).zip(&blocks) {
        to.copy_from_slice(block);
    }
}

pub fn aes128(input: &[u8], _: u32, output: &mut [u8]) {
    both(&Aes128::new(&array::<16>(input, 48).into()), input, output);
}

pub fn aes256(input: &[u8], _: u32, output: &mut [u8]) {
    both(&Aes256::new(&array::<32>(input, 32).into()), input, output);
}
