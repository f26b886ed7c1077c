//! Classifies images with a trained network.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use ferrowarp_data::{CLASSES, DataError, Dataset, Picture};
use ferrowarp_device::device::{self, DeviceChoice};
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::{Network, Pipeline, Precision};
use ferrowarp_mnist::{BatchSize, Console};

/// Classify images with a trained network
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The weights that `train-mnist --save` wrote
    #[arg(long, value_name = "FILE.safetensors")]
    model: PathBuf,

    /// Where the kernels run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Folder with the data set, for indices into the test images [default: data/mnist]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Use pictures unchanged; they must have the size of the training images. Without this flag, pictures are converted to
    /// the form of MNIST's digits
    #[arg(long)]
    as_is: bool,

    /// PNG files, or indices into the test images from 0. A number is an index; write `./42` for a file
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
}

/// An image ready for the network, and its name in the output.
struct Input {
    name: String,
    pixels: Vec<u8>,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return ferrowarp_report::usage_exit_code(&error),
    };
    ferrowarp_report::exit_code(predict(&args), device::exit_if_hung)
}

fn predict(args: &Args) -> anyhow::Result<()> {
    let parameters = checkpoint::load(&args.model)?.parameters;
    let sizes = parameters.sizes();
    let (features, classes) = (sizes[0], sizes[sizes.len() - 1]);
    let side = features.isqrt();
    ensure!(
        side * side == features && classes == CLASSES,
        "the network in {} takes {features} inputs and knows {classes} classes; a square image and {CLASSES} \
         classes are needed",
        args.model.display()
    );
    let inputs = read_inputs(args, side)?;

    let (device, why) = device::open(args.device).context(ferrowarp_mnist::NO_DEVICE)?;
    let mut console = Console::new(io::stdout());
    console.line(why)?;
    let pixels: Vec<u8> = inputs.iter().flat_map(|input| &input.pixels).copied().collect();
    let mut network =
        Network::new(&device, &parameters, Pipeline::Fused, Precision::F32, BatchSize::DEFAULT)?;
    let probabilities = network.predict(&pixels)?;
    if let Some(value) = probabilities.iter().find(|value| !value.is_finite()) {
        bail!(
            "the weights in {} are so large that a probability is {value}; train again with a smaller learning rate",
            args.model.display()
        );
    }
    for (input, probabilities) in inputs.iter().zip(probabilities.chunks(classes)) {
        console.line(format_args!("\n{}", input.name))?;
        console.line(ferrowarp_report::draw_digit(&input.pixels, side).trim_end())?;
        console.line(ferrowarp_report::draw_probabilities(probabilities).trim_end())?;
    }
    Ok(())
}

fn read_inputs(args: &Args, side: usize) -> anyhow::Result<Vec<Input>> {
    let mut test = None;
    let mut inputs = Vec::with_capacity(args.images.len());
    for path in &args.images {
        let index = path.to_str().and_then(|argument| argument.parse().ok());
        inputs.push(match index {
            Some(index) => {
                let test = match &mut test {
                    Some(test) => test,
                    none => none.insert(load_test(args, side)?),
                };
                test_image(test, index)?
            }
            None => picture(path, side, args.as_is)?,
        });
    }
    Ok(inputs)
}

fn load_test(args: &Args, side: usize) -> anyhow::Result<Dataset> {
    let dir = match &args.data {
        Some(dir) => dir.clone(),
        None => {
            let here = std::env::current_dir();
            ferrowarp_data::default_dir(
                &here.context("could not find the current folder; name the data with --data")?,
            )
        }
    };
    let test = ferrowarp_data::load_test(&dir)
        .context("indices need the test images; run train-mnist once, or name them with --data")?;
    if (test.rows, test.cols) != (side, side) {
        bail!(
            "the test images in {} have {} x {} pixels, the network in {} takes {side} x {side}",
            dir.display(),
            test.rows,
            test.cols,
            args.model.display()
        );
    }
    Ok(test)
}

fn test_image(test: &Dataset, index: usize) -> anyhow::Result<Input> {
    let pixels = test.image(index).ok_or_else(|| {
        anyhow!(
            "there is no test image {index}: indices go from 0 to {}; a file of that name is ./{index}",
            test.len() - 1
        )
    })?;
    let name = format!("test image {index}, labelled {}", test.labels[index]);
    Ok(Input { name, pixels: pixels.to_vec() })
}

fn picture(path: &Path, side: usize, as_is: bool) -> anyhow::Result<Input> {
    let picture = Picture::read(path).map_err(|error| match error {
        DataError::Read { .. } => {
            let path = path.display();
            anyhow!(error).context(format!("{path} is neither a picture nor an index into the test images"))
        }
        error => error.into(),
    })?;
    let pixels = if as_is {
        let ink = picture.as_is(side).map(<[u8]>::to_owned);
        ink.with_context(|| {
            format!(
                "{} does not have the {side} x {side} pixels that --as-is needs; omit --as-is",
                path.display()
            )
        })?
    } else {
        picture.to_digit(side).with_context(|| {
            let path = path.display();
            format!("{path} is blank; use a dark digit on light paper, or a light one on dark")
        })?
    };
    Ok(Input { name: path.display().to_string(), pixels })
}
