//! What changes from step to step and from epoch to epoch, in device memory: launches with the same arguments so do every
//! second step of a training.

/// Where training is, and how it goes on. It lies in a buffer of words, wherever these do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, packed(4))]
pub struct StepState {
    /// The first sample of the step, counted in the order of the epoch.
    pub first: u32,
    /// The step, counted from 0 in the epoch.
    pub step: u32,
    /// The learning rates of the step and of the next one, which take turns: a launch that reads the one may write the other.
    pub lr: [f32; 2],
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

    /// Its words, in order, for a buffer of words.
    pub const fn to_words(self) -> [u32; Self::WORDS] {
        let Self { first, step, lr: [even, odd], momentum, epoch, seed } = self;
        let [even, odd, momentum] = [even.to_bits(), odd.to_bits(), momentum.to_bits()];
        // The seed as it lies in memory on every machine that this runs on, which count bytes from the lowest on.
        [first, step, even, odd, momentum, epoch, seed as u32, (seed >> 32) as u32]
    }

    /// Reads only the learning rate of a step and the momentum: other threads may write the other fields meanwhile.
    /// `turn` is 0 or 1, the place of the step's rate.
    ///
    /// # Safety
    /// `state` is valid for reads.
    #[inline(always)]
    pub(super) unsafe fn rates(state: *const Self, turn: u32) -> Rates {
        // SAFETY: the caller's pointer.
        unsafe { Rates { lr: *Self::place_of_rate(state, turn), momentum: (*state).momentum } }
    }

    /// As [`Self::rates`], past L1, which may still have what was there before.
    ///
    /// # Safety
    /// Same as for [`Self::rates`].
    #[inline(always)]
    pub(super) unsafe fn rates_past_l1(state: *const Self, turn: u32) -> Rates {
        // SAFETY: the caller's pointer.
        unsafe {
            Rates {
                lr: Self::place_of_rate(state, turn).read_volatile(),
                momentum: (&raw const (*state).momentum).read_volatile(),
            }
        }
    }

    #[inline(always)]
    fn place_of_rate(state: *const Self, turn: u32) -> *const f32 {
        state.wrapping_byte_add(core::mem::offset_of!(Self, lr)).cast::<f32>().wrapping_add(turn as usize)
    }

    /// Goes on to the step after one of `rows` samples, whose rate is in `rates`, of which there is one for each step of the
    /// epoch and one more.
    ///
    /// # Safety
    /// `state` is valid for reads and writes, and no other code uses what is not the step's rate, nor the momentum. `rates`
    /// has the next step's rate.
    #[inline(always)]
    pub(super) unsafe fn go_on(state: *mut Self, rates: *const f32, turn: u32, rows: u32) {
        // SAFETY: the caller's pointers.
        unsafe {
            let [first, step] = [&raw mut (*state).first, &raw mut (*state).step];
            let next = step.read_volatile() + 1;
            Self::place_of_rate(state, 1 - turn)
                .cast_mut()
                .write_volatile(rates.add(next as usize).read_volatile());
            step.write_volatile(next);
            first.write_volatile(first.read_volatile() + rows);
        }
    }
}
