//! The kernels of the softmax operation, its gradient and cross entropy, each by itself on narrow rows.

use crate::reference::{self, Number};
use anyhow::{Context as _, Result};
use bytemuck::Pod;
use cuda_std::launch::Limits;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::softmax::{Choice, Operand, Options, Target};
use gpu_kernels::element::{self, DType};
use gpu_kernels::softmax::backward::{self, BACKWARD};
use gpu_kernels::softmax::cross_entropy::{self, CROSS_ENTROPY, I64};
use gpu_kernels::softmax::operation::{FORWARD, Memory, OfType, Tier};

use super::{Case, Shapes};
use crate::operation::{GAP, Rows, numbers, values};

/// The forward kernels from `I` to `O`, in every way that holds the width.
pub fn forward<I, O>(cases: &mut Vec<Case>, shapes: &Shapes) -> Result<()>
where
    I: Number + element::Number + Send + Sync,
    O: Number + element::Number,
{
    let mut of_types = FORWARD.iter().filter(|table| (table.from, table.to) == (I::DTYPE, O::DTYPE));
    let table = of_types.next().with_context(|| format!("no kernels from {} to {}", I::NAME, O::NAME))?;
    for &(rows, cols, max_cluster) in shapes.forward {
        let target = Target { limits: Limits { max_cluster, ..Limits::default() }, multiprocessors: 2 };
        let logits = numbers::<I>(rows * cols, cols);
        let choices = Choice::every(table, &target, rows, cols)?;
        let is_pair = |choice: &Choice| choice.kernels().count() == 2;
        let mut parts = choices.iter().enumerate().filter(|(_, choice)| is_pair(choice)).map(|(i, _)| i);
        let one = if I::DTYPE == DType::F32 { parts.next_back() } else { parts.next() };
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
                let operand = |memory| Operand { memory, stride };
                let (to, from) = (operand(out.written()?), operand(inp.read()?));
                let workspace = Memory::written(&mut workspace);
                // SAFETY: three buffers of this call's own, two with matrices of the choice's shape and types and one of
                // the size that it asks for.
                unsafe { choice.launch(device, to, from, &Options::new(), workspace) }?;
                Ok(vec![("out", wide(&out.packed()?))])
            }));
        }
    }
    Ok(())
}

/// The kernels of the gradient through a softmax of `T`.
pub fn backward<T: Number + element::Number + Send + Sync>(
    cases: &mut Vec<Case>,
    shapes: &Shapes,
) -> Result<()> {
    let rows = shapes.rows;
    for (tier, cols) in tiers(BACKWARD, T::DTYPE, shapes.widths) {
        let y = reference::softmax(&values(&numbers::<T>(rows * cols, 1)), cols);
        let y: Vec<T> = y.into_iter().map(|y| T::nearest(y as f32)).collect();
        let dy = numbers::<T>(rows * cols, 5);
        let shape = format!("{rows}x{cols}");
        cases.push(Case::new(vec![tier.meta.name], shape, move |device| {
            let (dy, y) = (Rows::new(device, &dy, cols)?, Rows::new(device, &y, cols)?);
            let mut dx = Rows::<T>::output(device, [rows, cols])?;
            let arguments = backward::Arguments {
                dx: dx.written()?,
                dy: dy.read()?,
                y: y.read()?,
                rows: rows as u32,
                cols: cols as u32,
                dx_stride: (cols + GAP) as u64,
                dy_stride: (cols + GAP) as u64,
                y_stride: (cols + GAP) as u64,
                scale: 0.5,
                flags: 0,
                ahead: 0,
            };
            // SAFETY: three matrices of this shape, and a grid for the rows of a width that the kernel holds.
            unsafe { (tier.launch)(device, tier.config(rows as u32), arguments) }?;
            Ok(vec![("dx", wide(&dx.packed()?))])
        }));
    }
    Ok(())
}

/// The kernels of cross entropy of `T`, with all their outputs.
pub fn cross_entropy<T: Number + element::Number + Send + Sync>(
    cases: &mut Vec<Case>,
    shapes: &Shapes,
) -> Result<()> {
    let rows = shapes.rows;
    for (tier, cols) in tiers(CROSS_ENTROPY, T::DTYPE, shapes.widths) {
        let logits = numbers::<T>(rows * cols, 2);
        let shape = format!("{rows}x{cols}");
        cases.push(Case::new(vec![tier.meta.name], shape, move |device| {
            let inp = Rows::new(device, &logits, cols)?;
            let mut gradient = Rows::<T>::output(device, [rows, cols])?;
            // The second row is ignored.
            let targets = device.upload(&[cols as i64 - 1, -100, 0][..rows])?;
            let (mut loss, mut lse) = (unwritten(device, -1f32, rows)?, unwritten(device, -1f32, rows)?);
            let mut correct = unwritten(device, u32::MAX, rows)?;
            let arguments = cross_entropy::Arguments {
                loss: Memory::written(&mut loss),
                lse: Memory::written(&mut lse),
                correct: Memory::written(&mut correct),
                d_logits: gradient.written()?,
                logits: inp.read()?,
                targets: Memory::read(&targets),
                d_loss: Memory::NONE,
                rows: rows as u32,
                cols: cols as u32,
                d_stride: (cols + GAP) as u64,
                stride: (cols + GAP) as u64,
                target_bytes: I64,
                ignore_index: -100,
                d_scale: 0.25,
                ahead: 0,
            };
            // SAFETY: matrices of this shape, vectors with an element for each row, classes of 64 bits, and a grid for
            // the rows of a width that the kernel holds.
            unsafe { (tier.launch)(device, tier.config(rows as u32), arguments) }?;
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

/// The kernels of a table for a type, each with the widths, or with the widest row that it holds.
fn tiers<A>(
    tables: &'static [OfType<A>],
    dtype: DType,
    widths: &'static [usize],
) -> impl Iterator<Item = (&'static Tier<A>, usize)> {
    let tiers = tables.iter().filter(move |table| table.dtype == dtype).flat_map(|table| table.tiers);
    tiers.flat_map(|tier| {
        let mut widths: Vec<_> = widths.iter().map(|&cols| cols.min(tier.elements as usize)).collect();
        widths.dedup();
        widths.into_iter().map(move |cols| (tier, cols))
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
