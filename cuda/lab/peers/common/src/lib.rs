//! What the peers in Rust share: MNIST, the order of the images, the clock and the file of figures. All four
//! match `benches/peers/mnist.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use serde::Serialize;

/// Widths of the network, input first.
pub const SIZES: [usize; 4] = [784, 300, 100, 10];

/// Times the training of 784-300-100-10 on MNIST and writes the figures as JSON
#[derive(Debug, Parser)]
pub struct Options {
    /// Folder with MNIST's four IDX files
    #[arg(long)]
    data: PathBuf,
    /// The JSON file to write
    #[arg(long)]
    out: PathBuf,
    /// Epochs that are timed; one more goes before them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Images of a batch, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = positive)]
    batches: Vec<usize>,
    /// Images of an epoch, at most
    #[arg(long, default_value = "60000", value_parser = positive)]
    images: usize,
    /// Learning rate of the first epoch
    #[arg(long, default_value_t = 0.3)]
    lr: f64,
    /// Factor on it after each epoch
    #[arg(long, default_value_t = 0.7)]
    lr_decay: f64,
    /// Seed of first weights and order
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "give a whole number from 1 on".to_owned())
}

/// Half of the data set: pixels `[n, 784]` in 0 to 1, and labels `[n]`.
#[derive(Debug)]
pub struct Half {
    /// The pixels.
    pub pixels: Vec<f32>,
    /// The labels.
    pub labels: Vec<u32>,
}

impl Half {
    fn read(folder: &Path, name: &str, most: usize) -> anyhow::Result<Half> {
        let images = read_idx(&folder.join(format!("{name}-images-idx3-ubyte")), 3)?;
        let labels = read_idx(&folder.join(format!("{name}-labels-idx1-ubyte")), 1)?;
        ensure!(
            images.len() == labels.len() * SIZES[0],
            "{} pixels do not fit {} labels in {}; run train-mnist once, which checks the files",
            images.len(),
            labels.len(),
            folder.display()
        );
        let count = labels.len().min(most);
        // The kernels of ours scale a batch when they gather it; here it is done once, before the clock starts.
        let pixels = images[..count * SIZES[0]].iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
        Ok(Half { pixels, labels: labels[..count].iter().map(|&label| u32::from(label)).collect() })
    }
}

/// What follows the header of an IDX file of bytes.
fn read_idx(path: &Path, dims: u8) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("reading {}; run train-mnist once, which fetches it", path.display()))?;
    let header = 4 + 4 * usize::from(dims);
    ensure!(
        bytes.len() > header && bytes[..4] == [0, 0, 8, dims],
        "{} is not an IDX file of {dims} dimensions; fetch it again",
        path.display()
    );
    Ok(bytes[header..].to_vec())
}

/// A network that is trained.
pub trait Peer {
    /// Trains on the images of `order`, in batches, and waits until that is done.
    fn epoch(&mut self, order: &[u32], batch: usize, lr: f64) -> anyhow::Result<()>;

    /// How many images of the test half it gets right.
    fn correct(&mut self) -> anyhow::Result<usize>;
}

/// Makes a network with its first weights.
pub type Make = fn(train: &Half, test: &Half, seed: u64) -> anyhow::Result<Box<dyn Peer>>;

#[derive(Serialize)]
struct Run {
    machine: String,
    driver: &'static str,
    date: String,
    versions: BTreeMap<&'static str, &'static str>,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    precision: &'static str,
    batch: usize,
    data: &'static str,
    images: usize,
    epoch_seconds: Vec<f64>,
    accuracy: f64,
}

/// Times these peers, each by its name, and writes the file. `version` is a framework with what it was pinned to.
///
/// # Errors
/// The data cannot be read, a peer failed, or the file cannot be written.
pub fn main(version: (&'static str, &'static str), peers: &[(&'static str, Make)]) -> anyhow::Result<()> {
    let options = Options::parse();
    let train = Half::read(&options.data, "train", options.images)?;
    let test = Half::read(&options.data, "t10k", usize::MAX)?;
    let mut entries = Vec::new();
    for &(name, make) in peers {
        for &batch in &options.batches {
            if batch > train.labels.len() {
                bail!(
                    "a batch of {batch} is more than the {} images; give a smaller one",
                    train.labels.len()
                );
            }
            let images = train.labels.len();
            let mut random = Random(options.seed);
            let orders: Vec<Vec<u32>> = (0..options.epochs).map(|_| random.order(images as u32)).collect();
            // To warm up: caches, and whatever is compiled or tuned at its first use.
            make(&train, &test, options.seed)?.epoch(&orders[0], batch, options.lr)?;
            let mut peer = make(&train, &test, options.seed)?;
            let mut epoch_seconds = Vec::new();
            for (number, order) in orders.iter().enumerate() {
                let lr = options.lr * options.lr_decay.powi(number as i32);
                let start = Instant::now();
                peer.epoch(order, batch, lr)?;
                epoch_seconds.push(start.elapsed().as_secs_f64());
            }
            let accuracy = peer.correct()? as f64 / test.labels.len().max(1) as f64;
            println!("{name}, batches of {batch}: {epoch_seconds:.3?} s, accuracy {:.2} %", 100.0 * accuracy);
            let (precision, data) = ("f32", "mnist");
            entries.push(Entry { name, precision, batch, data, images, epoch_seconds, accuracy });
        }
    }
    let run = Run {
        machine: "CPU".to_owned(),
        driver: "none",
        date: date()?,
        versions: BTreeMap::from([version]),
        entries,
    };
    let text = serde_json::to_string_pretty(&run).context("writing the figures as JSON")?;
    let temporary = options.out.with_extension("json.part");
    std::fs::write(&temporary, text + "\n")
        .and_then(|()| std::fs::rename(&temporary, &options.out))
        .with_context(|| format!("writing {}", options.out.display()))
}

/// The day, as in 2026-01-31.
fn date() -> anyhow::Result<String> {
    let output = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    Ok(String::from_utf8_lossy(&output.context("starting date")?.stdout).trim().to_owned())
}

/// SplitMix64.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// The numbers below `count` in a random order.
    fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        order
    }

    /// `count` numbers between `-bound` and `bound`.
    pub fn uniform(&mut self, count: usize, bound: f32) -> Vec<f32> {
        let mut draw = || (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        (0..count).map(|_| bound * (2.0 * draw() - 1.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_image_once() {
        let mut random = Random(1);
        let (a, b) = (random.order(1000), random.order(1000));
        assert!(a != b && a[..10] != [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        for mut order in [a, b] {
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..1000));
        }
    }

    #[test]
    fn uniform_numbers_fill_their_range() {
        let numbers = Random(3).uniform(10_000, 0.5);
        let (low, high) = numbers.iter().fold((0.0f32, 0.0f32), |(low, high), &x| (low.min(x), high.max(x)));
        assert!((-0.5..-0.49).contains(&low) && (0.49..=0.5).contains(&high), "{low} {high}");
        assert!(numbers.iter().sum::<f32>().abs() < 100.0);
    }
}
