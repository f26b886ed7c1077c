//! The kernels of the softmax operation, its gradient and cross entropy, each by itself on narrow rows.

use crate::reference::{self, Number};
use anyhow::{Context as _, Result};
use bytemuck::Pod;
use cuda_std::launch::{Limits, RawBuffer};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::softmax::{DeviceProfile, KernelChoice, Options, SoftmaxAs};
use gpu_kernels::softmax::backward::BackwardArgsHost;
use gpu_kernels::softmax::cross_entropy::{CrossEntropyLaunch, I64};
use gpu_kernels::softmax::forward::ForwardLaunch;
use gpu_kernels::softmax::operation::Variant;

use super::{Case, Shapes};
use crate::operation::{GAP, Rows, numbers, values};

/// The forward kernels from `I` to `O`, in every choice that holds the width.
pub fn forward<I, O>(cases: &mut Vec<Case>, shapes: &Shapes) -> Result<()>
where
    I: Number + SoftmaxAs<O> + Send + Sync,
    O: Number,
{
    for &(rows, cols, max_cluster) in shapes.forward {
        let profile = DeviceProfile {
            limits: Limits { max_cluster, ..Limits::default() },
            multiprocessors: 2,
            is_cpu: false,
        };
        let logits = numbers::<I>(rows * cols, cols);
        let choices = KernelChoice::<I, O>::every(&profile, rows, cols)?;
        let is_pair = |choice: &KernelChoice<I, O>| choice.kernels().count() == 2;
        let mut parts = choices.iter().enumerate().filter(|(_, choice)| is_pair(choice)).map(|(i, _)| i);
        let one = if I::NAME == f32::NAME { parts.next_back() } else { parts.next() };
        for (i, &choice) in choices.iter().enumerate() {
            if is_pair(&choice) && Some(i) != one && !shapes.all_parts {
                continue;
            }
            let config = choice.config().context("a shape with elements has a launch")?;
            if max_cluster > 1 && config.cluster == 1 {
                continue;
            }
            let kernels = choice.kernels().map(|meta| meta.name).collect();
            let logits = logits.clone();
            let shape = format!("{rows}x{cols}, grid {} in clusters of {}", config.grid, config.cluster);
            cases.push(Case::new(kernels, shape, move |device| {
                let inp = Rows::new(device, &logits, cols)?;
                let mut out = Rows::<O>::output(device, [rows, cols])?;
                let mut workspace = unwritten(device, u64::MAX, choice.workspace_bytes().div_ceil(8))?;
                let stride = cols + GAP;
                let pairs = RawBuffer::written(&mut workspace).cast();
                let args =
                    ForwardLaunch { pairs, ..ForwardLaunch::new(out.written()?, inp.read()?, [stride; 2]) };
                // SAFETY: three buffers of this call's own, two with matrices of the choice's shape and types and one of
                // the size that it asks for.
                unsafe { choice.launch(device, args, &Options::new()) }?;
                Ok(vec![("out", wide(&out.packed()?))])
            }));
        }
    }
    Ok(())
}

/// The kernels of the gradient through a softmax of `T`.
pub fn backward<T: Number + Send + Sync>(cases: &mut Vec<Case>, shapes: &Shapes) -> Result<()> {
    let rows = shapes.rows;
    for (variant, cols) in variants(T::BACKWARD, shapes.widths) {
        let y = reference::softmax(&values(&numbers::<T>(rows * cols, 1)), cols);
        let y: Vec<T> = y.into_iter().map(|y| T::nearest(y as f32)).collect();
        let dy = numbers::<T>(rows * cols, 5);
        let shape = format!("{rows}x{cols}");
        cases.push(Case::new(vec![variant.meta.name], shape, move |device| {
            let (dy, y) = (Rows::new(device, &dy, cols)?, Rows::new(device, &y, cols)?);
            let mut dx = Rows::<T>::output(device, [rows, cols])?;
            let stride = (cols + GAP) as u64;
            let args = BackwardArgsHost {
                dx: dx.written()?,
                dy: dy.read()?,
                y: y.read()?,
                rows: rows as u32,
                dx_stride: stride,
                dy_stride: stride,
                cols: cols as u32,
                y_stride: stride,
                scale: 0.5,
                flags: 0,
                prefetch_blocks: 0,
            };
            // SAFETY: three matrices of this shape, and a grid for the rows of a width that the kernel holds.
            unsafe { variant.launch(device, variant.config(rows as u32), args) }?;
            Ok(vec![("dx", wide(&dx.packed()?))])
        }));
    }
    Ok(())
}

/// The kernels of cross entropy of `T`, with all their outputs.
pub fn cross_entropy<T: Number + Send + Sync>(cases: &mut Vec<Case>, shapes: &Shapes) -> Result<()> {
    let rows = shapes.rows;
    for (variant, cols) in variants(T::CROSS_ENTROPY, shapes.widths) {
        let logits = numbers::<T>(rows * cols, 2);
        let shape = format!("{rows}x{cols}");
        cases.push(Case::new(vec![variant.meta.name], shape, move |device| {
            let inp = Rows::new(device, &logits, cols)?;
            let mut gradient = Rows::<T>::output(device, [rows, cols])?;
            // The second row is ignored.
            let targets = device.upload(&[cols as i64 - 1, -100, 0][..rows])?;
            let (mut loss, mut lse) = (unwritten(device, -1f32, rows)?, unwritten(device, -1f32, rows)?);
            let mut correct = unwritten(device, u32::MAX, rows)?;
            let (losses, classes) = (RawBuffer::written(&mut loss), RawBuffer::read(&targets).cast());
            let args = CrossEntropyLaunch {
                lse: RawBuffer::written(&mut lse),
                correct: RawBuffer::written(&mut correct),
                d_logits: gradient.written()?,
                d_stride: (cols + GAP) as u64,
                stride: (cols + GAP) as u64,
                rows: rows as u32,
                cols: cols as u32,
                d_scale: 0.25,
                ..CrossEntropyLaunch::new(losses, inp.read()?, classes, I64)
            };
            // SAFETY: matrices of this shape, vectors with an element for each row, classes of 64 bits, and a grid for
            // the rows of a width that the kernel holds.
            unsafe { variant.launch(device, variant.config(rows as u32), args) }?;
            Ok(vec![
                ("loss", wide(&loss.to_vec()?)),
                ("lse", wide(&lse.to_vec()?)),
                ("correct", correct.to_vec()?.into_iter().map(f64::from).collect()),
                ("d_logits", wide(&gradient.packed()?)),
            ])
        }));
    }
    Ok(())
}

/// The kernels of a list, each with the widths, or with the widest row that it holds.
fn variants<A>(
    variants: &'static [Variant<A>],
    widths: &'static [usize],
) -> impl Iterator<Item = (&'static Variant<A>, usize)> {
    variants.iter().flat_map(|variant| {
        let mut widths: Vec<_> = widths.iter().map(|&cols| cols.min(variant.elements as usize)).collect();
        widths.dedup();
        widths.into_iter().map(move |cols| (variant, cols))
    })
}

/// Memory that a kernel is to write before anybody reads it, full of what it hardly writes.
fn unwritten<T: Pod>(device: &Device, filler: T, len: usize) -> Result<Buffer<T>> {
    let mut buffer = device.upload(&vec![filler; len])?;
    // SAFETY: the kernel writes it before anybody reads: if not, that is to be found.
    unsafe { buffer.view_mut(..)?.mark_uninit() };
    Ok(buffer)
}

fn wide<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.value().into()).collect()
}
