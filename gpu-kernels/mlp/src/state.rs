//! The values that change per step and per epoch, in device memory: so launches with the same arguments serve every second
//! step of a training.

/// The state of training. It lies in a buffer of words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, packed(4))]
pub struct StepState {
    /// The first sample of the step, counted in the order of the epoch.
    pub first: u32,
    /// The number of the step in the epoch, from 0.
    pub step: u32,
    /// The learning rates of this step and the next, alternating: while a launch reads the one, it may write the other.
    pub lr: [f32; 2],
    /// Momentum, 0 for none.
    pub momentum: f32,
    /// The epoch, which together with the seed determines the order of its samples.
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

    /// Returns its words, in order, for a buffer of words.
    pub const fn to_words(self) -> [u32; Self::WORDS] {
        let Self { first, step, lr: [even, odd], momentum, epoch, seed } = self;
        let [even, odd, momentum] = [even.to_bits(), odd.to_bits(), momentum.to_bits()];
        // The seed in little-endian order, as in the memory of every supported machine.
        [first, step, even, odd, momentum, epoch, seed as u32, (seed >> 32) as u32]
    }

    /// Reads only the learning rate of a step and the momentum: other threads may write the other fields meanwhile. `turn`
    /// is 0 or 1, the index of the step's rate.
    ///
    /// # Safety
    /// `state` is valid for reads.
    #[inline(always)]
    pub(super) unsafe fn rates(state: *const Self, turn: u32) -> Rates {
        // SAFETY: the pointer is valid.
        unsafe { Rates { lr: *Self::place_of_rate(state, turn), momentum: (*state).momentum } }
    }

    /// Like [`Self::rates`], but bypasses L1, which may hold old values.
    ///
    /// # Safety
    /// Same as for [`Self::rates`].
    #[inline(always)]
    pub(super) unsafe fn rates_past_l1(state: *const Self, turn: u32) -> Rates {
        // SAFETY: the pointer is valid.
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

    /// Advances to the next step; the current one has `rows` samples. `rates` has the rate of each step of the epoch and one
    /// more.
    ///
    /// # Safety
    /// `state` is valid for reads and writes, and no other code uses its fields, except the step's rate and the momentum.
    /// `rates` has the next step's rate.
    #[inline(always)]
    pub(super) unsafe fn go_on(state: *mut Self, rates: *const f32, turn: u32, rows: u32) {
        // SAFETY: the pointers are valid.
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
