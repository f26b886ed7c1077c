//! What changes from step to step and from epoch to epoch, in device memory: launches with the same arguments so do every
//! step of a training.

/// Where training is, and how it goes on. It lies in a buffer of words, wherever these do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, packed(4))]
pub struct StepState {
    /// The first sample of the step, counted in the order of the epoch.
    pub first: u32,
    /// Learning rate.
    pub lr: f32,
    /// Momentum, 0 for none.
    pub momentum: f32,
    /// The epoch, which with the seed says the order of its samples.
    pub epoch: u32,
    /// The seed.
    pub seed: u64,
}

/// Learning rate and momentum.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub lr: f32,
    pub momentum: f32,
}

impl StepState {
    /// Number of words.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u32>();

    /// The words it is made of, in order, for a buffer of words.
    pub const fn to_words(self) -> [u32; Self::WORDS] {
        let Self { first, lr, momentum, epoch, seed } = self;
        // The seed as it lies in memory on every machine that this runs on, which count bytes from the lowest on.
        [first, lr.to_bits(), momentum.to_bits(), epoch, seed as u32, (seed >> 32) as u32]
    }

    /// Learning rate and momentum, read by themselves: the first sample may be written meanwhile.
    ///
    /// # Safety
    /// `state` is valid for reads.
    #[inline(always)]
    pub(super) unsafe fn rates(state: *const Self) -> Rates {
        // SAFETY: the caller's pointer.
        unsafe { Rates { lr: (*state).lr, momentum: (*state).momentum } }
    }
}
