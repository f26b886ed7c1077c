//! Checks of the device itself: copies, refused launches, and a kernel that panics.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use cuda_std::launch::{LaunchConfig, LaunchError};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp_report::print_line;
use gpu_kernels::mlp::activation::relu_forward;

use crate::{random, recording, streams};

/// A check of a device, with its description.
type Mechanic = (&'static str, fn(&Device) -> Result<()>);

/// The checks that leave the device usable.
pub const MECHANICS: &[Mechanic] = &[
    ("copies of odd sizes come back", copies),
    ("fresh memory is zero", zeroed),
    ("a view past the end is refused", views),
    ("a launch over the limits is refused", limits),
    ("an argument of another device is refused", residence),
    ("uploads, kernels and downloads on three streams are in order", streams::pipeline),
    ("a race between two streams is refused", streams::races),
    ("a graph of two streams runs as recorded", streams::graphs),
    ("operations run with the kernels of the loaded PTX", random::are_right),
    ("launches that may begin early do their work", streams::early_launches),
    ("the functions that users call are right", ferrowarp_cases::softmax::calls::are_right),
];

fn copies(device: &Device) -> Result<()> {
    for len in [0usize, 1, 31, 33, 4097, 1_000_003] {
        let data: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        ensure!(device.upload(&data)?.to_vec()? == data, "{len} bytes came back changed");
    }
    Ok(())
}

fn zeroed(device: &Device) -> Result<()> {
    for len in [1usize, 33, 100_001] {
        // Allocators often reuse the memory of a buffer that was just freed, here full of ones.
        drop(device.upload(&vec![u32::MAX; len])?);
        ensure!(
            device.alloc_zeroed::<u32>(len)?.to_vec()?.iter().all(|&x| x == 0),
            "{len} elements are not all zero"
        );
    }
    Ok(())
}

/// Checks that unwritten memory is filled with 0xab, on a GPU with soiled memory.
pub fn soiled(device: &Device) -> Result<()> {
    let words = device.unwritten_memory()?;
    ensure!(!words.is_empty(), "no word of unwritten memory was looked at");
    for (kind, first) in [("local", 0), ("shared", 1)] {
        let of_kind = words.iter().skip(first).step_by(2).enumerate();
        let clean: Vec<_> = of_kind.filter(|&(_, &word)| word != 0xabab_abab).collect();
        if let Some((thread, word)) = clean.first() {
            let (count, all) = (clean.len(), words.len() / 2);
            bail!("{count} of {all} words of {kind} memory are not soiled; thread {thread} found {word:#x}");
        }
    }
    Ok(())
}

fn views(device: &Device) -> Result<()> {
    let mut buffer = device.alloc_zeroed::<f32>(33)?;
    ensure!(buffer.view(1..34).is_err() && buffer.view_mut(34..).is_err());
    ensure!(buffer.view(33..)?.is_empty());
    Ok(())
}

fn limits(device: &Device) -> Result<()> {
    let inp = device.upload(&[1.0f32])?;
    let mut out = device.alloc_zeroed::<f32>(1)?;
    let limits = device.limits().clone();
    let config = LaunchConfig::new(1, 32);
    let too_large = [
        LaunchConfig::new(0, 32),
        LaunchConfig::new((1, limits.max_grid.y + 1), 32),
        LaunchConfig::new(1, (limits.max_block.x, 2)),
        config.with_shared_bytes(limits.max_dynamic_shared_bytes + 1),
        config.with_cluster(limits.max_cluster + 1),
    ];
    for config in too_large {
        // SAFETY: both have one element; the launch is refused because of its size.
        let result = unsafe { relu_forward::launch(device, config, &mut out, &inp, 1, 1) };
        ensure!(result.is_err(), "{config:?} was not refused");
    }
    // SAFETY: both have one element.
    unsafe { relu_forward::launch(device, config, &mut out, &inp, 1, 1) }?;
    ensure!(out.to_vec()? == [1.0], "the device is of no use after refused launches");
    Ok(())
}

fn residence(device: &Device) -> Result<()> {
    let inp = device.upload(&[1.0f32])?;
    let mut out = device.alloc_zeroed::<f32>(1)?;
    let cpu = Device::cpu();
    // SAFETY: both have one element; with a GPU the launch is refused, since the CPU cannot access its memory.
    let result = unsafe { relu_forward::launch(&cpu, LaunchConfig::new(1, 32), &mut out, &inp, 1, 1) };
    let refused = matches!(result, Err(LaunchError::WrongDevice { argument: "out", .. }));
    ensure!(refused == device.is_cuda(), "a launch on the CPU with memory of {}: {result:?}", device.name());
    Ok(())
}

/// Runs this program on the device with another flag, and returns its standard output.
pub fn in_new_process(flag: &str, choice: DeviceChoice) -> Result<String> {
    let program = std::env::current_exe().context("finding this program's file")?;
    let output = Command::new(&program)
        .args([flag, "--device", &choice.to_string()])
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "the process failed: {text}{errors}");
    Ok(text.into_owned())
}

/// Checks that a kernel's panic is reported, in a separate process, since it destroys the GPU's context.
pub fn panicking_kernel(choice: DeviceChoice) -> Result<()> {
    let report = in_new_process("--provoke-fault", choice)?;
    for part in
        ["relu_forward", "activation.rs:", "the len is 5 but the index is", "block (0, 0, 0)", "thread ("]
    {
        ensure!(report.contains(part), "`{part}` is not in the report: {report}");
    }
    Ok(())
}

/// Launches a kernel on an input that is too short, and prints the device's report. The next call may be of any kind, and other
/// devices of the GPU are lost too: all must name the panic.
pub fn provoke_fault(device: &Device, choice: DeviceChoice) -> Result<()> {
    let (other, _) = open(choice)?;
    let inp = device.upload(&[1.0f32; 5])?;
    let mut out = device.alloc_zeroed::<f32>(8)?;
    // SAFETY: `out` has eight elements; the kernel checks every index of `inp`, which this test relies on.
    let launched =
        unsafe { relu_forward::launch(device, LaunchConfig::new(1, (8, 1)), &mut out, &inp, 1, 8) };
    let report = match launched {
        Err(error) => error.to_string(),
        // Loads a module, until the driver has seen the panic.
        Ok(()) => match (0..1000).find_map(|_| recording::softmax_of_zeros(device).err()) {
            Some(error) => format!("{error:#}"),
            None => bail!("the kernel read past the end of its input without an error"),
        },
    };
    print_line(report)?;
    if device.is_cuda() {
        let told = [other.synchronize().err(), other.stream().err(), open(choice).err()];
        for error in told {
            let text = error.map_or_else(|| "no error".to_owned(), |error| error.to_string());
            ensure!(
                text.contains("relu_forward") && text.contains("panicked"),
                "another device of the GPU says: {text}"
            );
        }
        let Err(later) = out.to_vec() else { bail!("the GPU goes on as if nothing had happened") };
        ensure!(later.to_string().contains("cannot be used any more"), "the next call says: {later}");
    }
    Ok(())
}
