//! A CSV file becomes numbers: the stages of it on one core.

mod digits;

use std::fs;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ferrowarp_csv::{Lines, PIXELS, RUNGS, Rung};
use rayon::prelude::*;

use super::{Axis, Lesson, Measure, Prediction, Scale, Timed, Trial, Work};

use digits::Digits;

pub(super) const LESSON: Lesson = Lesson {
    name: "csv",
    title: "Parsing a CSV file",
    axis: Axis { label: "stage", is_log: false },
    measure: Measure::Bytes,
    rungs: || {
        let parsers = RUNGS.iter().map(|rung| (rung.name, rung.idea));
        let noise = ("words_noise", "the same, where every pixel may be any number");
        [("read", "the file, which the system has in memory, is read")]
            .into_iter()
            .chain(parsers)
            .chain([noise, ("floats", "pixels become floats from 0 to 1")])
            .collect()
    },
    trials,
    predictions,
};

/// Classes of labels.
const CLASSES: usize = 10;
/// The longest that all samples of a trial may take, if there are two.
const BUDGET: Duration = Duration::from_secs(1);

/// Places on the axis.
const READ: f64 = 1.0;
const PARSE: f64 = 2.0;
const PARSE_NOISE: f64 = 3.0;
const CONVERT: f64 = 4.0;

/// Why the parsers are slower than their instructions say.
const SLOWER: &str = "The core runs at about 2.9 GHz (`core_scalar` of the page on peaks, four operations per cycle), not at 4. \
                      The first touch of the output's pages and mispredicted branches probably take the rest.";

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::rate("read", 10e9).from("one copy in memory at 10 GB/s").why(
            "The kernel of the system finds a new page for every 4 KiB that it fills. That takes longer than the copy.",
        ),
        Prediction::rate("split_f32", 1830.0 * 4e9 / (785.0 * 50.0))
            .from("50 cycles per field at 4 GHz")
            .why(SLOWER),
        Prediction::rate("split_u8", 1830.0 * 4e9 / (785.0 * 30.0))
            .from("30 cycles per field at 4 GHz")
            .why(SLOWER),
        Prediction::rate("bytes", 1830.0 * 4e9 / (1830.0 * 2.0 + 105.0 * 15.0))
            .from("2 cycles per byte, 15 per mispredicted branch, 4 GHz")
            .why(SLOWER),
        Prediction::rate("words", 1830.0 * 4e9 / 2000.0)
            .from("2000 cycles per line at 4 GHz")
            .elsewhere("1 s for the file, expected", "GPUs, CPU not named")
            .why(SLOWER),
        Prediction::rate("words_noise", 7.1 * 4e9 / 15.0)
            .from("15 cycles per 7.1 bytes at 4 GHz")
            .why(SLOWER),
        Prediction::rate("floats", 109.0 / 188.0 * 10e9)
            .from("188 MB written at 10 GB/s")
            .why("The output is new memory, so the system has to find and clear 46,000 pages. The division is hidden behind that."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let images = match scale {
        Scale::Tiny => 1,
        Scale::Edges | Scale::Count => 3,
        // As many as MNIST has to learn from.
        Scale::Laptop | Scale::Gpu => 60_000,
    };
    let [written, noise] = [false, true].map(|noise| Arc::new(Text::new(Digits { images, noise })));
    let parsers = RUNGS.iter().map(|rung| trial(rung.name, PARSE, &written, |text| parse(rung, text)));
    let fastest = &RUNGS[RUNGS.len() - 1];
    [trial("read", READ, &written, read)]
        .into_iter()
        .chain(parsers)
        .chain([
            trial("words_noise", PARSE_NOISE, &noise, |text| parse(fastest, text)),
            trial("floats", CONVERT, &written, convert),
        ])
        .collect()
}

/// Images as text, which all stages share and the first one makes.
struct Text {
    digits: Digits,
    /// Bytes of the text.
    len: usize,
    text: OnceLock<Vec<u8>>,
}

impl Text {
    fn new(digits: Digits) -> Self {
        Self { digits, len: digits.text_len(), text: OnceLock::new() }
    }

    fn bytes(&self) -> &[u8] {
        self.text.get_or_init(|| self.digits.text())
    }
}

/// A stage that is ready to be run, again and again: it gives its time, and whether it did right.
type Stage = Box<dyn FnMut() -> Result<Duration>>;

/// The trial of a stage, which `prepare` makes ready; its useful bytes are those of the text.
fn trial(
    rung: &'static str,
    at: f64,
    text: &Arc<Text>,
    prepare: impl Fn(Arc<Text>) -> Result<Stage> + Send + Sync + 'static,
) -> Trial {
    let (text, len) = (Arc::clone(text), text.len as f64);
    let words = format!("{} lines, {:.0} MB", text.digits.images, len / 1e6);
    Trial::of_host(rung, at, words, Work::of_bytes(len), move |_, samples| {
        let mut stage = prepare(Arc::clone(&text))?;
        let begin = Instant::now();
        let mut times = Vec::new();
        while times.len() < samples && (times.len() < 2 || begin.elapsed() < BUDGET) {
            times.push(stage()?);
        }
        Ok(Timed::Samples(times))
    })
}

/// Reads the file, which was just written, and so is in the system's memory.
fn read(text: Arc<Text>) -> Result<Stage> {
    let mut file = tempfile::NamedTempFile::new().context("making a file for the text")?;
    file.write_all(text.bytes()).context("writing the text")?;
    Ok(Box::new(move || {
        let begin = Instant::now();
        let read = fs::read(file.path()).context("reading the text")?;
        let time = begin.elapsed();
        ensure!(read == text.bytes(), "another text was read than was written");
        Ok(time)
    }))
}

fn parse(rung: &'static Rung, text: Arc<Text>) -> Result<Stage> {
    Ok(Box::new(move || {
        let (digits, bytes) = (text.digits, text.bytes());
        let begin = Instant::now();
        let parsed = (rung.parse)(bytes, CLASSES);
        let time = begin.elapsed();
        let Lines { labels, pixels } = parsed.map_err(|bad| {
            anyhow::anyhow!("line {}, column {}: {}", bad.line + 1, bad.column, bad.problem)
        })?;
        ensure!(labels.len() == digits.images, "{} of {} lines came out", labels.len(), digits.images);
        let found = labels.par_iter().zip(pixels.par_chunks_exact(PIXELS)).enumerate();
        let is_right = |(image, (&label, pixels)): (usize, (&u8, &[u8]))| {
            let (right, image) = digits.image(image);
            label == right && pixels == image
        };
        ensure!(found.all(is_right), "another image than was written came out");
        Ok(time)
    }))
}

/// What follows for who trains with floats on the host: `x / 255`.
fn convert(text: Arc<Text>) -> Result<Stage> {
    let digits = text.digits;
    let pixels: Vec<u8> =
        (0..digits.images).into_par_iter().flat_map_iter(|image| digits.image(image).1).collect();
    Ok(Box::new(move || {
        let begin = Instant::now();
        let floats: Vec<f32> = black_box(&pixels).iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
        let time = begin.elapsed();
        let is_right = |(x, pixel): (&f32, &u8)| (f64::from(*x) * 255.0 - f64::from(*pixel)).abs() < 1e-4;
        let pairs = floats.par_iter().zip(&pixels);
        ensure!(floats.len() == pixels.len() && pairs.all(is_right), "wrong floats");
        Ok(time)
    }))
}
