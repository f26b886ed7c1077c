//! The images to train on: MNIST if available, else images of its shape.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use ferrowarp::device::Device;
use ferrowarp_data::{CLASSES, Dataset, Samples, default_dir};
use ferrowarp_mnist::model::{DeviceDataset, Pipeline, TrainingSet};

use super::{BATCHES, SIZES};

/// Images of MNIST's two parts.
const TRAIN: usize = 60_000;
const TEST: usize = 10_000;

/// Images of the two parts on the CPU executor, where times only show the effect of a change on it.
const TRAIN_CPU: usize = 512;
const TEST_CPU: usize = 100;

/// One of this many pixels is not 0, as in MNIST.
const INKED: u64 = 5;

/// A data set on a device.
#[derive(Debug)]
pub struct Data {
    /// `mnist` or `synthetic`.
    pub name: &'static str,
    /// The training images in host memory.
    samples: Samples,
    /// The same on the device.
    on_device: TrainingSet<'static>,
    /// The test images, for the accuracy.
    pub test: DeviceDataset,
}

impl Data {
    /// Loads the data set. On a GPU it is in the folder in `FERROWARP_BENCH_DATA`, or in `data/mnist`. On the CPU, or if it
    /// is missing, or if the variable is `synthetic`, the images come from [`synthetic`].
    ///
    /// # Errors
    /// The named folder has no data set, or an invalid one; there is not enough memory.
    pub fn load(device: &Device) -> anyhow::Result<Data> {
        let named = std::env::var_os("FERROWARP_BENCH_DATA").map(PathBuf::from);
        let is_synthetic = !device.is_cuda() || named.as_ref().is_some_and(|name| name == "synthetic");
        if !is_synthetic {
            let here = std::env::current_dir().context("asking for the current folder")?;
            let folder = named.clone().unwrap_or_else(|| default_dir(&here));
            if named.is_some() || ferrowarp_data::find(&folder)?.is_some() {
                let mnist = ferrowarp_data::load(&folder).context("loading the data to train on")?;
                return Data::upload(device, "mnist", &mnist.train, &mnist.test);
            }
            eprintln!("no MNIST in {}: training on generated images", folder.display());
        }
        let (train, test) = (images(device), if device.is_cuda() { TEST } else { TEST_CPU });
        let all = synthetic(train + test);
        let (images, labels) = (train * SIZES[0], train);
        let part = |images: &[u8], labels: &[u8]| Dataset {
            images: images.to_vec(),
            labels: labels.to_vec(),
            rows: all.rows,
            cols: all.cols,
        };
        let train = part(&all.images[..images], &all.labels[..labels]);
        Data::upload(device, "synthetic", &train, &part(&all.images[images..], &all.labels[labels..]))
    }

    pub(super) fn upload(
        device: &Device,
        name: &'static str,
        train: &Dataset,
        test: &Dataset,
    ) -> anyhow::Result<Data> {
        ensure!(
            train.features() == SIZES[0],
            "the images have {} pixels, but the bench trains on {}; name a folder with MNIST in FERROWARP_BENCH_DATA",
            train.features(),
            SIZES[0]
        );
        let upload = |half: &Dataset| {
            DeviceDataset::upload(device, &half.images, &half.labels, half.features(), CLASSES)
        };
        let on_device = upload(train)?.into();
        Ok(Data { name, samples: train.clone().into(), on_device, test: upload(test)? })
    }

    /// Images per epoch.
    pub fn images(&self) -> usize {
        self.on_device.len()
    }

    /// Trains on the images, from where the pipeline reads them.
    pub fn train<R>(&self, pipeline: Pipeline, train: impl FnOnce(&TrainingSet<'_>) -> R) -> R {
        match pipeline {
            Pipeline::Overlapped => train(&TrainingSet::OnHost(&self.samples)),
            _ => train(&self.on_device),
        }
    }
}

/// Images per epoch on a device, of MNIST or generated.
pub fn images(device: &Device) -> usize {
    if device.is_cuda() { TRAIN } else { TRAIN_CPU }
}

/// The batches of [`BATCHES`] for a device; on the CPU no larger than its images.
pub fn batches(device: &Device) -> impl Iterator<Item = u64> {
    let images = images(device);
    BATCHES.into_iter().filter(move |&batch| batch <= images as u64)
}

/// Generates learnable images of 28 x 28 pixels: each is the picture of its class with some pixels changed.
pub fn synthetic(images: usize) -> Dataset {
    let mut random = Random(7);
    let pixel = |random: &mut Random| match random.next() {
        ink if ink.is_multiple_of(INKED) => (random.next() >> 56) as u8 | 1,
        _ => 0,
    };
    let pictures: Vec<u8> = (0..CLASSES * SIZES[0]).map(|_| pixel(&mut random)).collect();
    let mut set = Dataset { images: Vec::new(), labels: Vec::new(), rows: 28, cols: 28 };
    for _ in 0..images {
        let label = random.next() as usize % CLASSES;
        set.labels.push(label as u8);
        let picture = &pictures[label * SIZES[0]..][..SIZES[0]];
        set.images.extend(picture.iter().map(|&ink| match random.next().is_multiple_of(INKED) {
            true => pixel(&mut random),
            false => ink,
        }));
    }
    set
}

/// SplitMix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_images_have_the_shape_and_the_ink_of_mnist() {
        let set = synthetic(500);
        assert_eq!((set.len(), set.features(), set.images.len()), (500, 784, 500 * 784));
        let inked = set.images.iter().filter(|&&pixel| pixel > 0).count() as f64 / set.images.len() as f64;
        assert!((0.15..0.25).contains(&inked), "{inked}");
        for class in 0..CLASSES {
            assert!(set.labels.iter().filter(|&&label| usize::from(label) == class).count() > 20, "{class}");
        }
        assert!(set.images[..784] != set.images[784..1568]);
        assert!(synthetic(500) == set, "the same call gives other images");
    }
}
