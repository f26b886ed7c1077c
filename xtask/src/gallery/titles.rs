//! The findings in the gallery's pictures, each a sentence with the measured figure.

use crate::chart::number;
use crate::gallery::entry::{Entry, find};
use crate::gallery::report::Lesson;

/// The finding of a lesson; its title if the compared rungs were not measured.
pub fn title(lesson: &Lesson<'_>) -> String {
    let fallback = || lesson.entries.first().map_or_else(String::new, |entry| entry.title.clone());
    finding(lesson).unwrap_or_else(fallback)
}

fn finding(lesson: &Lesson<'_>) -> Option<String> {
    let entries = &lesson.entries;
    let time = |rung: &str, at: Option<f64>| find(entries, rung, at)?.microseconds;
    let value = |rung: &str, at: Option<f64>| find(entries, rung, at).and_then(Entry::value);
    // The time of the first divided by the second's, on its largest problem.
    let over = |a: &str, b: &str| Some(number(time(a, None)? / time(b, None)?));
    let over_at = |a: &str, b: &str, at: f64| Some(number(time(a, Some(at))? / time(b, Some(at))?));
    let growth =
        |rung: &str, from: f64, to: f64| Some(number(time(rung, Some(to))? / time(rung, Some(from))?));
    Some(match lesson.name {
        "vector_add" => format!(
            "16 bytes per access add large vectors {} times as fast as 4 bytes",
            over("scalar", "vec4")?
        ),
        "copy_offset" => format!(
            "An offset costs {:.0} %; a stride of 8 elements takes {} times as long",
            100.0 * (time("offset", Some(1.0))? / time("offset", Some(64.0))? - 1.0),
            growth("stride", 1.0, 8.0)?
        ),
        "layout" => format!(
            "A structure of arrays is {} times as fast as an array of structures",
            over("aos", "soa")?
        ),
        "constant" => format!(
            "32 addresses per warp make constant memory {} times as slow as one",
            growth("const", 1.0, 32.0)?
        ),
        "grey" => format!("16 pixels per thread are {} times as fast as one", over("bytes", "vectors")?),
        "fusion" => format!(
            "Fusing five kernels saves a factor of {}, fusing nine a factor of {}",
            over("sin_cos_parts", "sin_cos_fused")?,
            over("gelu_parts", "gelu_fused")?
        ),
        "recompute" => format!(
            "Computing two sigmoids again is {} times as fast as storing them",
            over("stored", "recomputed")?
        ),
        "relu" => format!(
            "Half of the bytes take half of the time: f16 is {} times as fast as f32",
            over("f32", "f16")?
        ),
        "reduce" => format!(
            "The last rung sums {} times as fast as the first tree, at {} GB/s",
            over("modulo", "vec4")?,
            number(value("vec4", None)?)
        ),
        "dot" => format!(
            "Neighbouring threads on neighbouring elements are {} times as fast as chunks",
            over("chunks", "coalesced")?
        ),
        "bank_conflicts" => format!(
            "Padding removes 32-way conflicts: {} times as fast at a stride of 32",
            over_at("plain", "padded", 32.0)?
        ),
        "transpose" => format!(
            "A tile makes the transpose {} times as fast, a padded tile {} times",
            over("direct", "tile")?,
            over("direct", "padded")?
        ),
        "register_arrays" => format!(
            "An array in registers is {} times as fast as one in local memory",
            over("run_time", "unrolled")?
        ),
        "warps" => format!(
            "Shuffles take {} times as long as a formula: the stores are the limit",
            over("shuffle", "formula")?
        ),
        "warp_masks" => format!(
            "A barrier of some lanes takes {} times as long as their shuffle",
            over_at("sync", "shuffle", 4.0)?
        ),
        "divergence" => format!(
            "32 branches take {} times as long within a warp, and {} times between warps",
            growth("branch_by_lane", 1.0, 32.0)?,
            growth("branch_by_warp", 1.0, 32.0)?
        ),
        "occupancy" => format!(
            "16 loads per thread reach {} GB/s with a quarter of the warps; one load needs them all",
            number(value("sixteen", Some(16.0))?)
        ),
        "launch_bounds" => {
            format!("Full occupancy by spilling registers is {} times as slow", over("blocks_8", "blocks_4")?)
        }
        "peaks" => format!(
            "The GPU computes {} times as much as all cores, which compute {} times as much as a scalar loop",
            number(value("chain_8", None)? / value("cores_simd", None)?),
            number(value("cores_simd", None)? / value("core_scalar", None)?)
        ),
        "csv" => format!(
            "Eight bytes at a time parse {} times as fast as split and parse",
            over("split_f32", "words")?
        ),
        "matmul" => format!(
            "From {} to {} GFLOP/s at 4096; cuBLAS has {}",
            number(value("uncoalesced", Some(4096.0))?),
            number(value("tuned", Some(4096.0))?),
            number(value("cuBLAS", Some(4096.0))?)
        ),
        "transfers" => format!(
            "Large copies from pinned memory are {} times as fast as from pageable memory",
            over("upload_pageable", "upload_pinned")?
        ),
        "overlap" => format!(
            "Copies in 8 streams next to kernels: {} times as fast as one after the other",
            number(time("whole", Some(1.0))? / time("chunks", Some(8.0))?)
        ),
        "unified" => format!(
            "Page faults make the first kernel on data of the host {} times as slow",
            over("naive", "initialised")?
        ),
        "block_order" => {
            let share = 100.0 * time("blocks", None)? / (5.0 * 16_000.0 / lesson.limits.peaks?.boost_mhz);
            format!("Five blocks per multiprocessor take {share:.0} % of five times one block")
        }
        _ => return None,
    })
}
