//! What kernels are given: a case is a number, whose meaning the kernel knows, and bytes.

/// A number and bytes.
pub type Case = (u32, Vec<u8>);

/// Bytes without a pattern, the same on every machine (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// This many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }
}

/// Every length from 0 to `most`, the number being the length.
pub fn lengths(most: usize) -> Vec<Case> {
    (0..=most).map(|len| (len as u32, Random::new(len as u64).bytes(len))).collect()
}

/// `count` cases of `bytes` bytes, numbered from 0: the first are zeros, ones and single bits, the others random with
/// some bytes made zero or ones, so that numbers in them are small or at the end of their range now and then.
pub fn blocks(bytes: usize, count: u32) -> Vec<Case> {
    let block = |number: u32| {
        let mut random = Random::new(u64::from(number) + 1000);
        match number {
            0 => vec![0; bytes],
            1 => vec![0xff; bytes],
            2..=9 => (0..bytes).map(|i| if i % 8 == number as usize - 2 { 1 } else { 0 }).collect(),
            10 => (0..bytes).map(|i| if i % 8 == 7 { 0x80 } else { 0 }).collect(),
            11 => (0..bytes).map(|i| if i % 8 == 7 { 0x7f } else { 0xff }).collect(),
            _ => {
                let mut all = random.bytes(bytes);
                for word in all.chunks_mut(8) {
                    match random.word() % 8 {
                        0 => word[1..].fill(0),
                        1 => word[2..].fill(0xff),
                        2 => word[4..].fill(0),
                        3 => word.fill(0),
                        _ => {}
                    }
                }
                all
            }
        }
    };
    (0..count).map(|number| (number, block(number))).collect()
}

/// Each text as a case.
pub fn texts<T: AsRef<[u8]>>(all: impl IntoIterator<Item = T>) -> Vec<Case> {
    (0..).zip(all).map(|(number, text)| (number, text.as_ref().to_vec())).collect()
}
