//! Copies between host and device, from pageable and from page-locked memory.

use std::process::Command;
use std::time::Instant;

use anyhow::ensure;
use rayon::prelude::*;

use super::prelude::*;

/// Copies `bytes` bytes the given number of times.
type Copies = fn(&Device, usize, usize) -> Result<Timed>;

const RUNGS: &[(&str, &str, Copies)] = &[
    ("upload_pageable", "to the device, from ordinary memory", upload_pageable),
    ("upload_pinned", "to the device, from page-locked memory", upload_pinned),
    ("pieces_pageable", "to the device, from ordinary memory, 4 KiB per call", pieces_pageable),
    ("pieces_pinned", "to the device, from page-locked memory, 4 KiB per call, one wait", pieces_pinned),
    ("download_pageable", "from the device, to ordinary memory", download_pageable),
    ("download_pinned", "from the device, to page-locked memory", download_pinned),
    ("link", "what the link's generation and width allow, by nvidia-smi", link),
];

/// Bytes of a piece.
const PIECE: usize = 4096;

/// Sizes in powers of four, from 4 KiB.
fn sizes(count: u32) -> Vec<usize> {
    (0..count).map(|power| 4096 << (2 * power)).collect()
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let sizes = match scale {
        Scale::Tiny => vec![4],
        Scale::Edges => vec![4, 4100, 1 << 16],
        Scale::Count => vec![4096],
        Scale::Laptop => sizes(7),
        Scale::Gpu => sizes(10),
    };
    let trial = |&(rung, idea, copies): &'static (&str, &str, Copies), bytes: usize| {
        Trial::of_host((rung, idea), bytes, in_bytes(bytes), Work::of_bytes(bytes), move |device, runs| {
            copies(device, bytes, runs)
        })
    };
    let mut trials = each(RUNGS, &sizes, trial);
    // At most 1024 pieces.
    trials.retain(|trial| !trial.rung.starts_with("pieces") || trial.at <= (1024 * PIECE) as f64);
    trials
}

/// A size in words.
pub(super) fn in_bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Words of a block that a core fills or compares.
const OF_CORE: usize = 1 << 20;

fn fill(to: &mut [u32], seed: u32) {
    to.par_iter_mut().with_min_len(OF_CORE).enumerate().for_each(|(i, to)| *to = word(i) ^ seed);
}

/// Checks that the words of `seed` have arrived.
fn check(got: &[u32], seed: u32) -> Result<()> {
    let all = got.par_iter().with_min_len(OF_CORE).enumerate();
    let wrong = all.filter(|&(i, &got)| got != word(i) ^ seed).map(|(i, _)| i).min();
    ensure!(wrong.is_none(), "word {wrong:?} of {} is not what was copied", got.len());
    Ok(())
}

/// The time of each run except the first, which touches memory for the first time.
pub(super) fn timed(runs: usize, mut run: impl FnMut() -> Result<Duration>) -> Result<Timed> {
    run()?;
    Ok(Timed::Samples((0..runs).map(|_| run()).collect::<Result<_>>()?))
}

fn upload_pageable(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    from_pageable(device, bytes, bytes, runs)
}

fn pieces_pageable(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    from_pageable(device, bytes, PIECE, runs)
}

/// Uploads in pieces of `piece` bytes. Every call waits for its copy.
fn from_pageable(device: &Device, bytes: usize, piece: usize, runs: usize) -> Result<Timed> {
    let mut host = vec![0u32; bytes / 4];
    fill(&mut host, 1);
    let mut buffer = device.alloc_zeroed::<u32>(host.len())?;
    let times = timed(runs, || {
        let start = Instant::now();
        for (i, from) in host.chunks(piece / 4).enumerate() {
            let first = i * (piece / 4);
            buffer.view_mut(first..first + from.len())?.copy_from(from)?;
        }
        Ok(start.elapsed())
    })?;
    check(&buffer.to_vec()?, 1)?;
    Ok(times)
}

fn upload_pinned(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    from_pinned(device, bytes, bytes, runs)
}

fn pieces_pinned(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    from_pinned(device, bytes, PIECE, runs)
}

/// Uploads in pieces of `piece` bytes, all of which are queued before the wait for the first.
fn from_pinned(device: &Device, bytes: usize, piece: usize, runs: usize) -> Result<Timed> {
    let (len, each) = (bytes / 4, piece / 4);
    let mut words = vec![0; len];
    fill(&mut words, 2);
    let mut host = Vec::new();
    for words in words.chunks(each) {
        let mut pinned = device.alloc_pinned::<u32>(words.len())?;
        pinned.copy_from_slice(words);
        host.push(pinned);
    }
    let mut buffer = device.alloc_zeroed::<u32>(len)?;
    let stream = device.stream()?;
    let times = timed(runs, || {
        let (start, mut first) = (Instant::now(), 0);
        let mut copies = Vec::with_capacity(host.len());
        for from in host.drain(..) {
            let end = first + from.len();
            copies.push(stream.upload(from, buffer.view_mut(first..end)?)?);
            first = end;
        }
        for copy in copies {
            host.push(copy.wait()?);
        }
        Ok(start.elapsed())
    })?;
    check(&buffer.to_vec()?, 2)?;
    Ok(times)
}

fn download_pageable(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    let mut host = vec![0u32; bytes / 4];
    fill(&mut host, 3);
    let buffer = device.upload(&host)?;
    host.fill(0);
    let times = timed(runs, || {
        let start = Instant::now();
        buffer.copy_to(&mut host)?;
        Ok(start.elapsed())
    })?;
    check(&host, 3)?;
    Ok(times)
}

fn download_pinned(device: &Device, bytes: usize, runs: usize) -> Result<Timed> {
    let mut host = device.alloc_pinned::<u32>(bytes / 4)?;
    fill(&mut host, 4);
    let buffer = device.upload(&host)?;
    host.fill(0);
    let (stream, mut host) = (device.stream()?, Some(host));
    let times = timed(runs, || {
        let Some(to) = host.take() else { unreachable!("each run gives it back") };
        let start = Instant::now();
        host = Some(stream.download(&buffer, to)?.wait()?);
        Ok(start.elapsed())
    })?;
    check(&host.unwrap_or_else(|| unreachable!("each run gives it back")), 4)?;
    Ok(times)
}

/// The link's time for `bytes` bytes at its peak. Copies nothing.
fn link(device: &Device, bytes: usize, _: usize) -> Result<Timed> {
    if !device.is_cuda() {
        return Ok(Timed::Lacking("the CPU's memory has no link to it".to_owned()));
    }
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader"])
        .output();
    let answer = match asked {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Ok(Timed::Lacking(format!("nvidia-smi does not start: {error}"))),
    };
    Ok(match peak(&answer) {
        Some(peak) => Timed::Samples(vec![Duration::from_secs_f64(bytes as f64 / peak)]),
        None => Timed::Lacking(format!("nvidia-smi says {:?} of the link", answer.trim())),
    })
}

/// Bytes per second in one direction of links of this generation and width, if all GPUs have the same.
fn peak(answer: &str) -> Option<f64> {
    let mut lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    if lines.any(|line| line != first) {
        return None;
    }
    let (generation, width) = first.split_once(',')?;
    let width: f64 = width.trim().parse().ok()?;
    // Transfers per second of a lane, one bit each, and the share that their encoding leaves: 8 of 10 bits, then 128 of 130,
    // then 242 of the 256 bytes of a unit (PCI Express base specification).
    let bits = match generation.trim() {
        "1" => 2.5e9 * 0.8,
        "2" => 5e9 * 0.8,
        "3" => 8e9 * 128.0 / 130.0,
        "4" => 16e9 * 128.0 / 130.0,
        "5" => 32e9 * 128.0 / 130.0,
        "6" => 64e9 * 242.0 / 256.0,
        _ => return None,
    };
    Some(bits * width / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_peak_follows_from_its_generation() {
        let gb = |answer| peak(answer).map(|peak| (peak / 1e7).round() / 100.0);
        assert_eq!(gb("5, 16\n"), Some(63.02));
        assert_eq!(gb("4, 16\n4, 16\n"), Some(31.51));
        assert_eq!(gb("1, 4\n"), Some(1.0));
        assert_eq!(gb("4, 16\n5, 16\n"), None, "nobody knows which of them it is");
        assert_eq!(gb("[N/A], [N/A]\n"), None);
        assert_eq!(gb(""), None);
    }

    #[test]
    fn a_wrong_copy_is_found() {
        let mut copy: Vec<u32> = (0..16).map(|i| word(i) ^ 7).collect();
        check(&copy, 7).unwrap();
        copy[9] ^= 1;
        let error = check(&copy, 7).unwrap_err().to_string();
        assert!(error.contains("Some(9) of 16"), "{error}");
    }
}
