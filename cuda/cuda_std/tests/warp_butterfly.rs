//! Compares reductions that the executor does in one exchange with the GPU's butterfly.

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{thread, warp};

/// A number type that the executor does not know, so it is reduced with the GPU's butterfly.
#[derive(Clone, Copy)]
struct Foreign(f32);

impl warp::WarpShuffleValue for Foreign {
    unsafe fn shuffle(
        mode: warp::WarpShuffleMode,
        mask: u32,
        value: Self,
        b: u32,
        width: u32,
    ) -> warp::WarpShuffleResult<Self> {
        // SAFETY: the caller's contract is the callee's.
        let (value, in_range) = unsafe { f32::shuffle(mode, mask, value.0, b, width) };
        (Self(value), in_range)
    }
}

impl warp::WarpNumber for Foreign {
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    fn smaller(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
    fn larger(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

#[test]
fn one_exchange_gives_the_bits_of_the_butterfly() {
    macro_rules! check {
        ($($width:literal),*) => {$(
            let same = |known: f32, foreign: Foreign| {
                assert_eq!(known.to_bits(), foreign.0.to_bits(), "width {}", $width);
            };
            let kernel = || {
                // Values whose sum depends on the order.
                let own = 1.0 / (thread::thread_idx_x() as f32 + 0.3);
                // SAFETY: all lanes reduce together.
                unsafe {
                    let known = warp::reduce_sum_width::<f32, $width>(u32::MAX, own);
                    same(known, warp::reduce_sum_width::<Foreign, $width>(u32::MAX, Foreign(own)));
                    let known = warp::reduce_min_width::<f32, $width>(u32::MAX, own);
                    same(known, warp::reduce_min_width::<Foreign, $width>(u32::MAX, Foreign(own)));
                    let known = warp::reduce_max_width::<f32, $width>(u32::MAX, own);
                    same(known, warp::reduce_max_width::<Foreign, $width>(u32::MAX, Foreign(own)));
                }
            };
            Executor::new().run("reduces", LaunchConfig::new(1, 64), kernel).unwrap();
        )*};
    }
    check!(1, 2, 4, 8, 16, 32);
}
