//! Questions whose answer the emulator counts.

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::Counts;

use crate::ptx::Ptx;

/// A question about a launch of one warp, or of one block, whose answer is a number.
pub struct Question {
    /// The question.
    pub text: &'static str,
    /// A kernel of `gpu-kernels/puzzles/src/predict.rs`.
    pub kernel: &'static str,
    /// Its third argument.
    pub argument: u32,
    /// The threads of the only block.
    pub threads: u32,
    /// Takes the answer from the counts.
    pub answer: fn(&Counts) -> u64,
    /// Why it is so.
    pub why: &'static str,
}

/// All questions, by number from 1.
pub const QUESTIONS: &[Question] = &[
    Question {
        text: "The 32 threads of a warp load 32 neighbouring `f32`, from an address that is a multiple of 128 on. How many \
               sectors of 32 bytes does the load touch?",
        kernel: "strided",
        argument: 1,
        threads: 32,
        answer: |counts| counts.global.loads.sectors,
        why: "32 elements of 4 bytes are 128 bytes, and these are 4 sectors of 32 bytes. Every byte of them is used.",
    },
    Question {
        text: "Now thread i loads element 2 * i: every other one. How many sectors does the load touch?",
        kernel: "strided",
        argument: 2,
        threads: 32,
        answer: |counts| counts.global.loads.sectors,
        why: "The elements are spread over 256 bytes, and these are 8 sectors. Half of what is moved is not used.",
    },
    Question {
        text: "Now thread i loads element 8 * i. How many sectors does the load touch?",
        kernel: "strided",
        argument: 8,
        threads: 32,
        answer: |counts| counts.global.loads.sectors,
        why: "8 elements are 32 bytes, so each thread has a sector of its own. It cannot get worse: a stride of 100 has as many.",
    },
    Question {
        text: "Thread i loads element i + 1: neighbours, but from an address that is 4 bytes after a multiple of 128. How \
               many sectors does the load touch?",
        kernel: "shifted",
        argument: 1,
        threads: 32,
        answer: |counts| counts.global.loads.sectors,
        why: "128 bytes that begin inside a sector end inside another: 5 sectors. An offset of 8 elements would have 4 again.",
    },
    Question {
        text: "All 32 threads load the same element. How many sectors does the load touch?",
        kernel: "one_for_all",
        argument: 5,
        threads: 32,
        answer: |counts| counts.global.loads.sectors,
        why: "One element lies in one sector, and the request delivers it to all lanes.",
    },
    Question {
        text: "A block of 100 threads copies neighbours: thread i loads element i. How many requests to load does it make? A \
               request is one execution of a load by a warp.",
        kernel: "strided",
        argument: 1,
        threads: 100,
        answer: |counts| counts.global.loads.requests,
        why: "100 threads are 4 warps: three with 32 threads and one with 4. The last one makes a request, too.",
    },
    Question {
        text: "Thread i of a warp reads word i of an array in shared memory. How many bank conflicts are there, that is, passes \
               beyond the first?",
        kernel: "banks",
        argument: 1,
        threads: 32,
        answer: Counts::bank_conflicts,
        why: "Neighbouring words lie in neighbouring banks: 32 threads, 32 banks, one pass.",
    },
    Question {
        text: "Now thread i reads word 2 * i. How many bank conflicts are there?",
        kernel: "banks",
        argument: 2,
        threads: 32,
        answer: Counts::bank_conflicts,
        why: "Only even banks are used, and threads i and i + 16 have the same one: two passes, one more than needed.",
    },
    Question {
        text: "Now thread i reads word 32 * i: a column of a matrix with rows of 32 words. How many bank conflicts are there?",
        kernel: "banks",
        argument: 32,
        threads: 32,
        answer: Counts::bank_conflicts,
        why: "All words lie in one bank, which gives one per pass: 32 passes, 31 more than needed.",
    },
    Question {
        text: "Now thread i reads word 33 * i: a column of a matrix whose rows are padded to 33 words. How many bank conflicts are \
               there?",
        kernel: "banks",
        argument: 33,
        threads: 32,
        answer: Counts::bank_conflicts,
        why: "33 * i lies in bank i, since 33 is one more than 32. Every thread has its own bank.",
    },
    Question {
        text: "All threads of a warp read the same word of shared memory. How many bank conflicts are there?",
        kernel: "banks",
        argument: 0,
        threads: 32,
        answer: Counts::bank_conflicts,
        why: "A bank gives one word per pass, to any number of threads. Conflicts are between different words.",
    },
    Question {
        text: "In a block of 128 threads, those with an even index run a loop, and the odd ones do not: `if i % 2 == 0`. How \
               many times does a warp diverge, counted over all warps of the block?",
        kernel: "branches",
        argument: 1,
        threads: 128,
        answer: |counts| counts.branches.divergent,
        why: "Each of the 4 warps has even and odd threads, and diverges once. The odd ones wait.",
    },
    Question {
        text: "Now the 32 threads of a warp decide alike: `if i / 32 % 2 == 0`. How many times does a warp diverge, counted \
               over all warps of the 128 threads?",
        kernel: "branches",
        argument: 32,
        threads: 128,
        answer: |counts| counts.branches.divergent,
        why: "Two warps run the loop and two do not. No warp diverges: a branch costs only what its warps run.",
    },
];

impl Question {
    /// Counts the answer.
    ///
    /// # Errors
    /// The PTX has no such kernel, or the kernel failed.
    pub fn count(&self, ptx: Ptx) -> anyhow::Result<u64> {
        let mut emulator = ptx.emulator.with_counts();
        // Both begin at a multiple of 128.
        let mut memory = vec![0f32; 4096 + 32];
        let start = memory.as_ptr().align_offset(128);
        let out = memory[start..].as_mut_ptr();
        let inp = out.wrapping_add(1024);
        let bytes = [out, inp].map(|pointer| pointer.expose_provenance().to_le_bytes());
        let arguments: [&[u8]; 3] = [&bytes[0], &bytes[1], &self.argument.to_le_bytes()];
        // SAFETY: the memory outlives the launch, and the emulator checks each access of it.
        unsafe {
            emulator.lend(&mut memory);
            emulator.launch(self.kernel, LaunchConfig::new(1, self.threads), &arguments)?;
        }
        Ok((self.answer)(&emulator.take_counts().into_iter().map(|launch| launch.total).sum()))
    }
}
