//! The gallery's index: the lessons in reading order, a glossary, and the systems of the documents that the lessons follow.

use std::path::Path;

use anyhow::Context;

use crate::report::row;

/// A document that lessons follow.
struct Document {
    title: &'static str,
    author: &'static str,
    systems: &'static [(&'static str, Shown)],
}

/// The place that shows a system.
#[derive(Clone, Copy)]
enum Shown {
    /// A lesson of the gallery.
    In(&'static str),
    /// The roofline, which has no kernels of its own.
    Roofline,
    /// The training ladder.
    Training,
    /// The softmax ladder.
    Softmax,
}

use Shown::{In, Roofline, Softmax, Training};

const DOCUMENTS: &[Document] = &[
    Document {
        title: "GPUs",
        author: "the article whose network and softmax the ladders climb",
        systems: &[
            ("vector addition on a CPU and a GPU, and where the GPU overtakes", In("vector_add")),
            ("matrix multiplication on a 2-D and a 1-D grid", In("matmul")),
            ("kernels of a neural network, forward and backward", Training),
            ("faster parsing of the CSV file", In("csv")),
            ("kernels queued first, data loaded in the meantime", Training),
            ("fusion, and larger batches", Training),
            ("roofline", Roofline),
            ("constant memory and its broadcast", In("constant")),
            ("tiled matrix multiplication", In("matmul")),
            ("warps, and blocks that do not fill them", In("occupancy")),
            ("copies with an offset and with a stride", In("copy_offset")),
            ("softmax: reduction, coalescing, shuffles, float4, unrolling, online", Softmax),
        ],
    },
    Document {
        title: "Initial CUDA Performance Lessons",
        author: "Malte Skarupke, 2024",
        systems: &[
            ("a dot product in chunks and coalesced", In("dot")),
            ("where the FLOPs of a machine are", In("peaks")),
            ("arrays in registers", In("register_arrays")),
            ("the sum of a warp by shuffles", In("dot")),
            ("many threads for little work each", In("reduce")),
        ],
    },
    Document {
        title: "Notes on lecture 4 of CUDA MODE: compute and memory basics",
        author: "BBuf, after Thomas Viehmann",
        systems: &[
            ("how the threads of a block are numbered, neighbours by shuffle", In("warps")),
            ("divergence of branches and of loops", In("divergence")),
            ("sync_warp, and parts of a warp", In("warp_masks")),
            ("occupancy", In("occupancy")),
            ("launch bounds", In("launch_bounds")),
            ("GeLU in parts and fused", In("fusion")),
            ("RGB to grey, and its speed of light", In("grey")),
            ("roofline with the latency hidden", Roofline),
            ("matrix multiplication, plain and tiled", In("matmul")),
        ],
    },
    Document {
        title: "CS336, lecture 5: GPUs",
        author: "Stanford, spring 2025",
        systems: &[
            ("conditionals within a warp", In("divergence")),
            ("ReLU in f32 and in 16 bits", In("relu")),
            ("sin^2 + cos^2, fused", In("fusion")),
            ("three sigmoids, stored and recomputed", In("recompute")),
            ("bursts and coalescing", In("copy_offset")),
            ("tiling: reads of a matrix multiplication", In("matmul")),
            ("throughput over size: alignment and waves", In("matmul")),
        ],
    },
    Document {
        title: "learning_cuda",
        author: "Cedric Perauer",
        systems: &[
            ("structure of arrays and array of structures", In("layout")),
            ("bank conflicts of shared memory", In("bank_conflicts")),
            ("the read-only cache", In("constant")),
            ("register spills", In("register_arrays")),
            ("pageable and pinned memory", In("transfers")),
            ("asynchronous copies next to kernels", In("overlap")),
            (
                "unified memory: naive, initialised on the GPU, a warp a page, prefetched, advised",
                In("unified"),
            ),
            ("the order in which blocks and warps run", In("block_order")),
            ("occupancy and bounded registers", In("launch_bounds")),
            (
                "the reduction ladder: modulo, bit mask, sequential, grid-stride, loads in flight, shuffles",
                In("reduce"),
            ),
        ],
    },
];

/// The lessons in reading order, with their topics. A lesson that needs an earlier one comes after it.
const ORDER: &[(&str, &str)] = &[
    ("vector_add", "a thread per element; when a GPU is worth it"),
    ("warps", "how threads are numbered and form warps"),
    ("block_order", "where and when blocks run"),
    ("divergence", "what branches within a warp cost"),
    ("warp_masks", "how some lanes of a warp work together"),
    ("copy_offset", "sectors and coalescing"),
    ("layout", "structures of arrays"),
    ("dot", "which thread takes which elements"),
    ("grey", "speed of light of a small kernel"),
    ("relu", "half of the bytes, half of the time"),
    ("occupancy", "bytes in flight, by warps or by loads per thread"),
    ("bank_conflicts", "how shared memory is built"),
    ("transpose", "shared memory to change the order of accesses"),
    ("constant", "constant memory and its one fast pattern"),
    ("register_arrays", "registers and local memory"),
    ("launch_bounds", "registers traded for occupancy"),
    ("reduce", "sums, barriers, shuffles, atomics"),
    ("fusion", "fewer passes over memory"),
    ("recompute", "arithmetic instead of memory"),
    ("peaks", "latency of arithmetic, and where a machine's FLOPs are"),
    ("matmul", "tiles, registers, pipelines, waves"),
    ("roofline", "which limit a kernel has"),
    ("transfers", "pageable and pinned memory"),
    ("overlap", "streams: copies and kernels at the same time"),
    ("unified", "page faults, prefetching, advice"),
    ("csv", "getting the data into memory"),
];

/// The terms of the lessons.
const GLOSSARY: &[(&str, &str)] = &[
    ("multiprocessor (SM)", "the GPU's unit that runs blocks; an H200 has 132, each with four schedulers"),
    ("block", "threads that run on one multiprocessor, share its shared memory, and can wait for each other"),
    ("warp", "32 threads of a block with consecutive numbers, which execute one instruction at a time"),
    ("lane", "a thread's place in its warp, 0 to 31"),
    ("sector", "32 bytes, the unit in which memory and caches move data; four sectors are a cache line"),
    ("coalescing", "serving the request of a warp with as few sectors as hold it"),
    ("wavefront", "one pass of shared memory over its 32 banks; conflicts make a request take several"),
    ("divergence", "a warp executes both sides of a branch because its lanes disagree"),
    ("occupancy", "warps on a multiprocessor, as a share of the most it can hold"),
    ("spill", "a value stored to local memory because no register is left"),
    ("wave", "the blocks that run at the same time; a grid larger than that takes several"),
    ("accumulator", "a register that sums up the terms of one element of a result"),
    ("cold L2", "no data of a run is in L2 when it starts: runs take buffers in turn"),
];

/// Lessons about work of the host.
const HOST: &[&str] = &["transfers", "overlap", "unified", "csv"];

/// The lessons with a page, sorted.
pub fn lessons(pages: &Path) -> anyhow::Result<Vec<String>> {
    let mut lessons = Vec::new();
    for entry in pages.read_dir().with_context(|| format!("reading {}", pages.display()))? {
        let name = entry.with_context(|| format!("reading {}", pages.display()))?.file_name();
        lessons.extend(name.to_string_lossy().strip_suffix(".md").map(str::to_owned));
    }
    lessons.retain(|name| name != "README");
    lessons.sort();
    Ok(lessons)
}

/// The page with the lessons and the systems.
pub fn index(pages: &Path) -> anyhow::Result<String> {
    let there = lessons(pages)?;
    let mut text = String::from(
        "# The gallery\n\nLessons of GPU programming. Each lesson has a few kernels that differ in one thing. Every lesson runs \
         without a GPU: `cargo xtask gallery LESSON`. On a GPU `cargo bench gallery` times it. Each page says what theory \
         predicts, what was measured, what other texts report, and why they differ. Each page ends with exercises that need no \
         GPU: predict, run, compare. After a change of a kernel, building takes some minutes.\n\nThis page is written by `cargo xtask \
         report gallery`. Begin at the top.\n\n",
    );
    let header = ["lesson", "teaches", "kernels"];
    text += &(row(&header.map(str::to_owned)) + &row(&["---"; 3].map(str::to_owned)));
    for lesson in in_order(&there) {
        let title = title(pages, lesson)?;
        let teaches = ORDER.iter().find(|(name, _)| name == lesson).map_or("", |(_, teaches)| teaches);
        text += &row(&[format!("[{title}]({lesson}.md)"), teaches.to_owned(), file(pages, lesson)]);
    }
    text += "\n## Words\n\n";
    text += &(row(&["word", "meaning"].map(str::to_owned)) + &row(&["---"; 2].map(str::to_owned)));
    for (word, meaning) in GLOSSARY {
        text += &row(&[*word, *meaning].map(str::to_owned));
    }
    text += "\n## Where the lessons come from\n\nSystems that five documents build or measure, and what shows them here. Tensor \
             cores and mixed precision are in [the matmul ladder](../matmul-ladder.md), FlashAttention is \
             `ferrowarp::attention`. Not shown: texture memory, cooperative groups, TPUs, measured latencies of the memory \
             hierarchy, and drawings of the hardware.\n";
    for Document { title, author, systems } in DOCUMENTS {
        text += &format!("\n### {title} ({author})\n\n");
        let header = ["system", "kernels", "test", "bench", "picture"];
        text += &(row(&header.map(str::to_owned)) + &row(&["---"; 5].map(str::to_owned)));
        for (system, shown) in *systems {
            let [kernels, test, bench, picture] = cells(pages, &there, *shown);
            text += &row(&[(*system).to_owned(), kernels, test, bench, picture]);
        }
    }
    Ok(text)
}

/// The title of a lesson's page.
fn title(pages: &Path, lesson: &str) -> anyhow::Result<String> {
    let page = pages.join(format!("{lesson}.md"));
    let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    Ok(page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(lesson).to_owned())
}

/// A lesson's position among the others: a line with links to its neighbours and to the glossary.
pub fn path(pages: &Path, lesson: &str) -> anyhow::Result<String> {
    let there = lessons(pages)?;
    let all = in_order(&there);
    let place =
        all.iter().position(|name| *name == lesson).with_context(|| format!("no page for {lesson}"))?;
    let link = |name: &str| anyhow::Ok(format!("[{}]({name}.md)", title(pages, name)?));
    let mut parts = vec![format!("Lesson {} of {} of [the gallery](README.md)", place + 1, all.len())];
    if let Some(before) = place.checked_sub(1) {
        parts.push(format!("before: {}", link(all[before])?));
    }
    if let Some(next) = all.get(place + 1) {
        parts.push(format!("next: {}", link(next)?));
    }
    parts.push("[words](README.md#words)".to_owned());
    Ok(parts.join(" · ") + "\n")
}

/// The lessons in reading order; lessons that it does not name are last.
fn in_order(lessons: &[String]) -> Vec<&String> {
    let mut lessons: Vec<&String> = lessons.iter().collect();
    let place = |lesson: &String| ORDER.iter().position(|(name, _)| name == lesson).unwrap_or(ORDER.len());
    lessons.sort_by_key(|lesson| place(lesson));
    lessons
}

/// File, test, bench and picture of the place that shows a system.
fn cells(pages: &Path, there: &[String], shown: Shown) -> [String; 4] {
    let link = |text: &str, to: &str| format!("[{text}]({to})");
    match shown {
        In(lesson) if there.iter().any(|known| known == lesson) => {
            let picture = format!("{lesson}.svg");
            [
                file(pages, lesson),
                "`host/tests/gallery.rs`".to_owned(),
                // The bench only times kernels.
                if HOST.contains(&lesson) {
                    format!("`cargo xtask gallery {lesson}`")
                } else {
                    format!("`cargo bench gallery/{lesson}`")
                },
                if pages.join(&picture).is_file() {
                    link(lesson, &picture)
                } else {
                    "not measured".to_owned()
                },
            ]
        }
        In(_) => ["not there yet".to_owned(), String::new(), String::new(), String::new()],
        Roofline => [
            file(pages, "roofline"),
            "`cuda/ptx_emulator/tests/counts_flop.rs`".to_owned(),
            "`cargo xtask gallery --roofline`".to_owned(),
            link("roofline", "roofline.svg"),
        ],
        Training => [
            "`gpu-kernels/mlp/src`".to_owned(),
            "`host/tests/kernels.rs`".to_owned(),
            "`cargo bench mlp`".to_owned(),
            link("the training ladder", "../training-ladder.md"),
        ],
        Softmax => [
            "`gpu-kernels/ladders/src/softmax`".to_owned(),
            "`host/tests/softmax`".to_owned(),
            "`cargo bench softmax`".to_owned(),
            link("the softmax ladder", "../softmax-ladder.md"),
        ],
    }
}

/// The file of a lesson's kernels, or of the host's work if it has none.
fn file(pages: &Path, lesson: &str) -> String {
    if lesson == "roofline" {
        return "all of `gpu-kernels`".to_owned();
    }
    let root = pages.parent().and_then(Path::parent).unwrap_or(pages);
    let kernels = format!("gpu-kernels/lessons/src/gallery/{lesson}");
    let of_host = [format!("host/{lesson}"), format!("host/cases/src/gallery/{lesson}.rs")];
    let mut files = [format!("{kernels}.rs"), kernels].into_iter().chain(of_host);
    let file = files.find(|file| root.join(file).exists());
    file.map_or_else(|| "not there".to_owned(), |file| format!("`{file}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_committed_index_is_that_of_today() {
        let pages = workspace::root().join("docs/gallery");
        let committed = std::fs::read_to_string(pages.join("README.md")).unwrap();
        assert!(
            committed == index(&pages).unwrap(),
            "docs/gallery/README.md is stale; run cargo xtask report gallery"
        );
    }

    #[test]
    fn every_lesson_has_exercises_with_a_command_and_an_answer() {
        let pages = workspace::root().join("docs/gallery");
        for lesson in lessons(&pages).unwrap() {
            let page = std::fs::read_to_string(pages.join(format!("{lesson}.md"))).unwrap();
            let exercises = page.split_once("\n## Exercises\n").map_or("", |(_, exercises)| exercises);
            let count = (1..).take_while(|n| exercises.contains(&format!("\n{n}. "))).count();
            assert!((1..=3).contains(&count), "{lesson} has {count} exercises");
            let commands = exercises.matches(&format!("cargo xtask gallery {lesson}")).count();
            let commands = commands + exercises.matches("cargo xtask gallery --roofline").count();
            let answers = exercises.matches("<summary>What to expect</summary>").count();
            assert_eq!((commands, answers), (count, count), "{lesson}");
        }
    }
}
