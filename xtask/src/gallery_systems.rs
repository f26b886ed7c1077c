//! The table of the gallery's index: every system of the documents that the lessons follow, and what shows it here.

use std::path::Path;

use anyhow::Context;

use crate::report::row;

/// A document that lessons follow.
struct Document {
    title: &'static str,
    author: &'static str,
    systems: &'static [(&'static str, Shown)],
}

/// What shows a system.
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
            ("matrix product on a 2-D and a 1-D grid", In("matmul")),
            ("kernels of a neural network, forward and backward", Training),
            ("faster parsing of the CSV file", In("csv")),
            ("kernels queued first, data loaded meanwhile", Training),
            ("fusion, and larger batches", Training),
            ("roofline", Roofline),
            ("constant memory and its broadcast", In("constant")),
            ("tiled matrix product", In("matmul")),
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
            ("occupancy and block size", In("occupancy")),
            ("launch bounds", In("launch_bounds")),
            ("GeLU in parts and fused", In("fusion")),
            ("RGB to grey, and its speed of light", In("grey")),
            ("roofline with the latency hidden", Roofline),
            ("matrix product, plain and tiled", In("matmul")),
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
            ("tiling: reads of a matrix product", In("matmul")),
            ("throughput over size: alignment and waves", In("matmul")),
        ],
    },
    Document {
        title: "learning_cuda",
        author: "Cedric Perauer",
        systems: &[
            ("structure of arrays against array of structures", In("layout")),
            ("bank conflicts of shared memory", In("bank_conflicts")),
            ("the read-only cache", In("constant")),
            ("register spills", In("register_arrays")),
            ("pageable and pinned memory", In("transfers")),
            ("asynchronous copies beside kernels", In("overlap")),
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

/// Lessons that are what a host does.
const HOST: &[&str] = &["transfers", "overlap", "unified", "csv"];

/// The lessons that have a page, sorted.
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

/// The page that lists the lessons and the systems.
pub fn index(pages: &Path) -> anyhow::Result<String> {
    let there = lessons(pages)?;
    let mut text = String::from(
        "# The gallery\n\nLessons of GPU programming, each a few kernels that differ by the lesson alone. Every one runs \
         without a GPU: `cargo xtask gallery LESSON`; `cargo bench gallery` times them where there is one.\n\nThis page is \
         written by `cargo xtask report gallery`.\n\n",
    );
    text += &(row(&["lesson", "kernels"].map(str::to_owned)) + &row(&["---", "---"].map(str::to_owned)));
    for lesson in &there {
        let page = pages.join(format!("{lesson}.md"));
        let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let title = page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(lesson);
        text += &row(&[format!("[{title}]({lesson}.md)"), file(pages, lesson)]);
    }
    text += "\n## Where the lessons come from\n\nEvery system that five documents build or measure, and what shows it here; \
             tensor cores, mixed precision and FlashAttention are not in the gallery.\n";
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

/// File, test, bench and picture of what shows a system.
fn cells(pages: &Path, there: &[String], shown: Shown) -> [String; 4] {
    let link = |text: &str, to: &str| format!("[{text}]({to})");
    match shown {
        In(lesson) if there.iter().any(|known| known == lesson) => {
            let picture = format!("{lesson}.svg");
            [
                file(pages, lesson),
                "`host/tests/gallery.rs`".to_owned(),
                // What a host does beside its kernels the bench does not time.
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
            "`gpu-kernels/src/mlp`".to_owned(),
            "`host/tests/kernels.rs`".to_owned(),
            "`cargo bench mlp`".to_owned(),
            link("the training ladder", "../training-ladder.md"),
        ],
        Softmax => [
            "`gpu-kernels/src/softmax`".to_owned(),
            "`host/tests/softmax`".to_owned(),
            "`cargo bench softmax`".to_owned(),
            link("the softmax ladder", "../softmax-ladder.md"),
        ],
    }
}

/// Where a lesson's kernels are, or what the host does where there are none.
fn file(pages: &Path, lesson: &str) -> String {
    if lesson == "roofline" {
        return "all of `gpu-kernels/src`".to_owned();
    }
    let root = pages.parent().and_then(Path::parent).unwrap_or(pages);
    let kernels = format!("gpu-kernels/src/gallery/{lesson}");
    let of_host = [format!("host/{lesson}"), format!("host/cases/src/gallery/{lesson}.rs")];
    let mut files = [format!("{kernels}.rs"), kernels].into_iter().chain(of_host);
    let file = files.find(|file| root.join(file).exists());
    file.map_or_else(|| "not there".to_owned(), |file| format!("`{file}`"))
}
