//! The README's table of figures, computed from the files in `docs/results`.

use crate::pages::training::{self, USUAL};
use crate::pages::{attention, matmul, rows, softmax};
use crate::report::{Results, Subject, geometric_mean, merged, stem, table, time, times, update_page};

/// The subjects in the order of the table.
const SUBJECTS: [&Subject; 5] =
    [&softmax::SOFTMAX, &matmul::MATMUL, &attention::ATTENTION, &rows::NORM, &rows::AXIS];

/// Writes the table between `<!-- figures -->` and `<!-- /figures -->` in the README.
pub fn update_readme() -> anyhow::Result<()> {
    update_page("README.md", "figures", &section()?)
}

/// The table, with a row for each of a subject's [`crate::report::Shown`], and one for training.
pub fn section() -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let mut machines: Vec<String> = Vec::new();
    for subject in SUBJECTS {
        let results = Results::read(&merged(subject.name)?[0])?;
        lines.extend(subject.readme.iter().map(|shown| {
            let tables = subject.contests(&results);
            let contests = tables.iter().filter(|(title, _)| title == shown.table).flat_map(|(_, all)| all);
            let contests: Vec<_> = contests.collect();
            let leads: Vec<f64> = contests.iter().filter_map(|it| Some(it.least(subject)?.0)).collect();
            let (name, at) = shown.example;
            let example = contests.iter().find(|contest| contest.ours.is_at(at));
            let example = example.and_then(|contest| contest.ours.microseconds);
            let example = example.map_or("not measured".to_owned(), |took| format!("{name}: {}", time(took)));
            line(shown.name, &page(subject.name, &results), example, geometric_mean(&leads))
        }));
        machines.push(results.machine);
    }
    let results = Results::read(&merged("mlp")?[0])?;
    let [ours, peer] = [&results.ours, &results.peers].map(|all| training::fastest(all, USUAL, "f32"));
    let epoch = ours.as_ref().map_or("not measured".to_owned(), |(epoch, _)| training::milliseconds(*epoch));
    let lead = ours.zip(peer).map(|((ours, _), (peer, _))| peer / ours);
    let example = format!("an epoch of MNIST in batches of {USUAL}: {epoch}");
    lines.push(line("training", &page("mlp", &results), example, lead));
    machines.push(results.machine);
    machines.dedup();
    let header = ["operation", "for example", "fastest peer's time / ours"];
    Ok(format!(
        "{}\nOn an {}. The last column is how many times as long the fastest of the other libraries (PyTorch, torch.compile, Triton, \
         QuACK, FlashInfer, FlashAttention 2, cuBLASLt, cuDNN, JAX) takes: the geometric mean over the problems of a table on the linked \
         page, and of the example alone for training. The page has every figure with date and commit. Written by `cargo xtask report \
         figures`.\n",
        table(&header, 2, &lines),
        machines.join(" and an ")
    ))
}

/// The page with all figures.
fn page(name: &str, results: &Results) -> String {
    format!("docs/results/{}.md", stem(name, &results.machine))
}

fn line(name: &str, page: &str, example: String, lead: Option<f64>) -> Vec<String> {
    vec![format!("[{name}]({page})"), example, times(lead)]
}
