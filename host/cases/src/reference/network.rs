//! SGD steps of a network of linear layers with ReLUs in between, as simple loops, in `f64` or in `f32`.

use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A number type to compute in.
pub trait Real:
    Copy
    + PartialOrd
    + From<f32>
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
{
    /// `e^self`.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
}

macro_rules! reals {
    ($($ty:ident),*) => {$(
        impl Real for $ty {
            fn exp(self) -> Self {
                $ty::exp(self)
            }

            fn ln(self) -> Self {
                $ty::ln(self)
            }
        }
    )*};
}

reals!(f32, f64);

/// A layer's parameters: weights `[inputs, outputs]` and biases `[outputs]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerOf<T> {
    /// `[inputs, outputs]`.
    pub weights: Vec<T>,
    /// `[outputs]`.
    pub biases: Vec<T>,
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Its loss in nats.
    pub loss: f64,
    /// The label's logit minus the largest other one.
    pub lead: f64,
}

impl<T: Real> LayerOf<T> {
    /// Converts the numbers to another type.
    pub fn of<U: Copy + Into<T>>(layer: &LayerOf<U>) -> Self {
        let convert = |numbers: &[U]| numbers.iter().map(|&x| x.into()).collect();
        LayerOf { weights: convert(&layer.weights), biases: convert(&layer.biases) }
    }

    /// `inp * weights + biases` for one row.
    fn forward(&self, inp: &[T]) -> Vec<T> {
        let mut out = self.biases.clone();
        for (x, weights) in inp.iter().zip(self.weights.chunks_exact(out.len())) {
            out.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum += *x * weight);
        }
        out
    }

    /// `weights * d_out` for one row, where `inp`, the ReLU's output, is positive.
    fn backward(&self, inp: &[T], d_out: &[T]) -> Vec<T> {
        let rows = inp.iter().zip(self.weights.chunks_exact(d_out.len()));
        let zero = T::from(0.0);
        let sum = |weights: &[T]| weights.iter().zip(d_out).fold(zero, |sum, (&w, &d)| sum + w * d);
        rows.map(|(&x, weights)| if x > zero { sum(weights) } else { zero }).collect()
    }

    /// Makes an SGD step from the inputs and output gradients of a batch.
    fn step(&mut self, inp: &[Vec<T>], d_out: &[Vec<T>], lr: T) {
        let outputs = self.biases.len();
        let mut d_weights = vec![T::from(0.0); self.weights.len()];
        let mut d_biases = vec![T::from(0.0); outputs];
        for (inp, d_out) in inp.iter().zip(d_out) {
            for (&x, sums) in inp.iter().zip(d_weights.chunks_exact_mut(outputs)) {
                sums.iter_mut().zip(d_out).for_each(|(sum, &d)| *sum += x * d);
            }
            d_biases.iter_mut().zip(d_out).for_each(|(sum, &d)| *sum += d);
        }
        self.weights.iter_mut().zip(d_weights).for_each(|(w, d)| *w -= lr * d);
        self.biases.iter_mut().zip(d_biases).for_each(|(b, d)| *b -= lr * d);
    }
}

/// The learning rate of a step, and the share of its targets that is spread evenly over all classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// The learning rate.
    pub lr: f32,
    /// The share.
    pub smoothing: f32,
}

/// Makes an SGD step on the rows of `inp` with the classes `labels`; the gradient is averaged over them.
pub fn step<T: Real>(
    layers: &mut [LayerOf<T>],
    inp: Vec<Vec<T>>,
    labels: &[usize],
    how: Sgd,
) -> Vec<Judgement> {
    let (lr, smoothing) = (T::from(how.lr), T::from(how.smoothing));
    let zero = T::from(0.0);
    let mut activations = vec![inp];
    for (l, layer) in layers.iter().enumerate() {
        let mut out: Vec<Vec<T>> = activations[l].iter().map(|row| layer.forward(row)).collect();
        if l + 1 < layers.len() {
            out.iter_mut().flatten().for_each(|x| *x = if *x > zero { *x } else { zero });
        }
        activations.push(out);
    }
    let logits = activations.pop().unwrap_or_default();
    let (rows, mut judgements) = (T::from(labels.len() as f32), Vec::new());
    let mut d_out: Vec<Vec<T>> = Vec::new();
    for (logits, &label) in logits.iter().zip(labels) {
        let max = logits.iter().fold(logits[0], |max, &x| if x > max { x } else { max });
        let exps: Vec<T> = logits.iter().map(|&x| (x - max).exp()).collect();
        let sum = exps.iter().fold(zero, |sum, &x| sum + x);
        let others = logits.iter().enumerate().filter(|&(class, _)| class != label);
        let next = others.map(|(_, &x)| x.into()).fold(f64::NEG_INFINITY, f64::max);
        let classes = T::from(logits.len() as f32);
        let one_hot = |class| T::from(if class == label { 1.0 } else { 0.0 });
        let target = |class| (T::from(1.0) - smoothing) * one_hot(class) + smoothing / classes;
        let of_class = |class: usize| target(class) * (sum.ln() - (logits[class] - max));
        let loss = (0..logits.len()).fold(zero, |loss, class| loss + of_class(class)).into();
        let own: f64 = logits[label].into();
        judgements.push(Judgement { loss, lead: own - next });
        d_out.push(exps.iter().enumerate().map(|(class, &x)| (x / sum - target(class)) / rows).collect());
    }
    for (layer, inp) in layers.iter_mut().zip(&activations).rev() {
        let d_inp = inp.iter().zip(&d_out).map(|(inp, d_out)| layer.backward(inp, d_out)).collect();
        layer.step(inp, &d_out, lr);
        d_out = d_inp;
    }
    judgements
}
