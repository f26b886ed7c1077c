//! Finds instructions in machine code that ptxas 13.0 and older get wrong.

/// An instruction that ptxas may have got wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The section's function: a kernel, with the functions that only it calls.
    pub function: String,
    /// The instruction's offset in the section.
    pub offset: usize,
    /// What may be wrong.
    pub fault: &'static str,
}

impl std::fmt::Display for Suspect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {:#x}: {}", self.function, self.offset, self.fault)
    }
}

/// The instructions that two faults of ptxas need, in an ELF file for compute capability 7.5 and above; `None` if the file is
/// something else or damaged.
///
/// Machine code without a suspect has neither fault. A suspect is no proof: the lost negation leaves no trace.
pub fn suspects(code: &[u8]) -> Option<Vec<Suspect>> {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(code.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    crate::ptxas::is_machine_code(code).then_some(())?;
    let (table, count, names) = (number(0x28, 8)?, number(0x3c, 2)?, number(0x3e, 2)?);
    let section = |index: usize| table.checked_add(index.checked_mul(64)?);
    let names = number(section(names)?.checked_add(0x18)?, 8)?;
    let mut found = Vec::new();
    for index in 0..count {
        let header = section(index)?;
        let name = code.get(names.checked_add(number(header, 4)?)?..)?;
        let name = String::from_utf8_lossy(name.split(|&byte| byte == 0).next()?);
        let Some(function) = name.strip_prefix(".text.") else { continue };
        let (start, size) = (number(header.checked_add(0x18)?, 8)?, number(header.checked_add(0x20)?, 8)?);
        for (i, word) in code.get(start..start.checked_add(size)?)?.chunks_exact(16).enumerate() {
            let [low, high] =
                [&word[..8], &word[8..]].map(|half| half.iter().rfold(0, |n, &b| n << 8 | u64::from(b)));
            let function = || function.to_owned();
            found.extend(fault(low, high).map(|fault| Suspect {
                function: function(),
                offset: i * 16,
                fault,
            }));
        }
    }
    Some(found)
}

/// The possible fault of an instruction of 128 bits.
fn fault(low: u64, high: u64) -> Option<&'static str> {
    match low & 0x1ff {
        // VIMNMX3 of 32 bits with a sign, of registers, a number or a uniform register.
        0x00f if high & 0x300 == 0x100 => {
            Some("a signed minimum or maximum of three, which may lack a negation (cuda_ir/src/negations.rs)")
        }
        // SGXT and USGXT of a number of bits.
        0x01a | 0x09a if low & 0xe00 == 0x800 && high & 0x200 != 0 && low >> 32 == 8 => Some(
            "a sign-extended byte, which may be compared as if it were not (cuda_ir/src/byte_parameters.rs)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_told_apart() {
        // From machine code for compute capability 9.0 and 10.0.
        for (low, high, is_suspect) in [
            (0x0000_0007_0007_720f, 0x004f_ca00_0780_0106, true),
            (0xffff_fff9_0007_780f, 0x004f_ca00_0780_0107, true),
            (0x0000_0006_0707_7c0f, 0x004f_ca00_0f80_0100, true),
            (0x0000_0007_0007_720f, 0x004f_ca00_0780_1106, true),
            (0x0000_0007_0007_720f, 0x004f_ca00_0780_0006, false),
            (0x0000_0007_0007_720f, 0x004f_ca00_0780_0306, false),
            (0x0000_0008_0000_781a, 0x000f_e200_0000_0200, true),
            (0x0000_0008_0404_789a, 0x000f_e200_0800_0200, true),
            (0x0000_0010_0000_781a, 0x000f_e200_0000_0200, false),
            (0x0000_0008_0207_781a, 0x0000_0000_0000_0800, false),
            (0x0000_9910_0009_7816, 0x000f_e400_0000_00ff, false),
        ] {
            assert_eq!(fault(low, high).is_some(), is_suspect, "{low:#x} {high:#x}");
        }
    }

    #[test]
    fn other_files_are_no_machine_code() {
        assert_eq!(suspects(b"\x7fELF"), None);
        let mut damaged = vec![0xff; 100];
        damaged[..4].copy_from_slice(b"\x7fELF");
        damaged[18..20].copy_from_slice(&[190, 0]);
        assert_eq!(suspects(&damaged), None);
    }
}
