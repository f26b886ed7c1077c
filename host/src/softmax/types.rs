//! The pairs of types that there are kernels for.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};

/// A type of input whose softmax can be given as `O`: `f32` as `f32`; `f16` and `bf16` as themselves or as `f32`.
///
/// All are computed in `f32` and rounded once.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::f16;
/// use ferrowarp::softmax::{Options, SoftmaxError, softmax_of_slice};
///
/// let logits = [f16::ONE; 4];
/// let probabilities: Vec<f32> = softmax_of_slice(&Device::cpu(), &logits, [1, 4], &Options::new())?;
/// assert_eq!(probabilities, [0.25; 4]);
/// # Ok::<(), SoftmaxError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "there is no softmax of `{Self}` as `{O}`",
    note = "f32 is given as f32; f16 and bf16 (of `cuda_std::half`) are given as themselves or as f32"
)]
pub trait SoftmaxAs<O: Pod>: Pod + sealed::Kernels<O> {}

/// `f32`, `f16` or `bf16`: a type of matrices whose softmax, cross entropy and gradients are of the same type.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Options, Real, SoftmaxError, softmax_of_slice};
///
/// fn row<T: Real>(logits: &[T]) -> Result<Vec<T>, SoftmaxError> {
///     softmax_of_slice(&Device::cpu(), logits, [1, logits.len()], &Options::new())
/// }
/// assert_eq!(row(&[2.0f32, 2.0])?, [0.5, 0.5]);
/// # Ok::<(), SoftmaxError>(())
/// ```
pub trait Real: SoftmaxAs<Self> {}

impl<T: SoftmaxAs<T>> Real for T {}

pub(super) mod sealed {
    use gpu_kernels::softmax::operation::Forward;

    /// The kernels of a pair of types.
    pub trait Kernels<O> {
        const FORWARD: &'static Forward;
    }
}

macro_rules! pairs {
    ($($inp:ident as $out:ident: $table:ident;)*) => {$(
        impl sealed::Kernels<$out> for $inp {
            const FORWARD: &'static gpu_kernels::softmax::operation::Forward =
                &gpu_kernels::softmax::operation::$table;
        }
        impl SoftmaxAs<$out> for $inp {}
    )*};
}

pairs! {
    f32 as f32: F32_TO_F32;
    f16 as f16: F16_TO_F16;
    bf16 as bf16: BF16_TO_BF16;
    f16 as f32: F16_TO_F32;
    bf16 as f32: BF16_TO_F32;
}

#[cfg(test)]
mod tests {
    use bytemuck::Pod;
    use cuda_std::half::{bf16, f16};
    use gpu_kernels::softmax::operation::FORWARD;

    use super::{SoftmaxAs, sealed::Kernels};

    fn names<I: SoftmaxAs<O> + Kernels<O>, O: Pod>() -> (&'static str, &'static str) {
        (I::FORWARD.from.name(), I::FORWARD.to.name())
    }

    #[test]
    fn every_pair_has_its_kernels() {
        let pairs = [
            names::<f32, f32>(),
            names::<f16, f16>(),
            names::<bf16, bf16>(),
            names::<f16, f32>(),
            names::<bf16, f32>(),
        ];
        assert_eq!(
            pairs,
            [("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("f16", "f32"), ("bf16", "f32")]
        );
        assert!(pairs.into_iter().eq(FORWARD.iter().map(|f| (f.from.name(), f.to.name()))));
    }
}
