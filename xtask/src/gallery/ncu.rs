//! Nsight Compute's counts of the gallery, from its CSV: `ncu --csv --page raw` on `gallery --once`.

use std::path::Path;

use anyhow::{Context, ensure};

use ferrowarp_report::gallery::{Counts, Entry};

/// The field of a metric.
type Place = fn(&mut Counts) -> &mut Option<f64>;

/// The metrics.
const METRICS: [(&str, Place); 4] = [
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", |counts| &mut counts.sectors_loaded),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", |counts| &mut counts.sectors_stored),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", |counts| &mut counts.bank_conflicts),
    ("smsp__sass_branch_targets_threads_divergent.sum", |counts| &mut counts.divergent_branches),
];

/// Fills each counted entry from its launches in the file, which are in the order of the entries.
pub fn merge(entries: &mut [Entry], file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut launches = launches(&text).with_context(|| format!("reading {}", file.display()))?.into_iter();
    for entry in entries {
        let Some(counted) = &entry.counted else { continue };
        let mut sum = Counts::default();
        for _ in 0..counted.launches {
            let (kernel, mut profiled) = launches.next().with_context(|| {
                format!(
                    "{} ends before {} {}; profile the same commit",
                    file.display(),
                    entry.lesson,
                    entry.name
                )
            })?;
            ensure!(
                entry.kernels.contains(&kernel),
                "{} has a launch of {kernel} where {} {} has one of {}; profile the same commit",
                file.display(),
                entry.lesson,
                entry.name,
                entry.kernels.join(" or ")
            );
            for (_, place) in METRICS {
                let sum = place(&mut sum);
                *sum = Some(sum.unwrap_or_default() + place(&mut profiled).unwrap_or_default());
            }
        }
        entry.profiled = Some(sum);
    }
    let left = launches.count();
    ensure!(
        left == 0,
        "{} has {left} launches more than were counted; profile the same commit",
        file.display()
    );
    Ok(())
}

/// The launches in the text: the kernel of each, and its metrics.
fn launches(text: &str) -> anyhow::Result<Vec<(String, Counts)>> {
    let launches = table(text, &METRICS.map(|(name, _)| name))?;
    let profiled = |values: Vec<f64>| {
        let mut profiled = Counts::default();
        METRICS.iter().zip(values).for_each(|((_, place), value)| *place(&mut profiled) = Some(value));
        profiled
    };
    Ok(launches.into_iter().map(|(kernel, values)| (kernel, profiled(values))).collect())
}

/// The launches in the text: the kernel of each, and its values of these metrics, in the text's units.
pub fn table(text: &str, metrics: &[&str]) -> anyhow::Result<Vec<(String, Vec<f64>)>> {
    // Output of the program and the profiler precedes the table.
    let start = text.find("\"ID\"").context("it holds no table; run ncu with --csv --page raw")?;
    let mut reader = csv::Reader::from_reader(&text.as_bytes()[start..]);
    let header = reader.headers()?.clone();
    let column = |name: &str| {
        let place = header.iter().position(|known| known == name);
        place.with_context(|| format!("it has no column {name}; run ncu with that metric"))
    };
    let kernel = column("Kernel Name")?;
    let columns: Vec<usize> = metrics.iter().map(|name| column(name)).collect::<anyhow::Result<_>>()?;
    let mut launches = Vec::new();
    // The first row has the units.
    for row in reader.records().skip(1) {
        let row = row?;
        let value = |&column: &usize| {
            let text = row.get(column).unwrap_or_default().replace(',', "");
            text.parse().with_context(|| format!("`{text}` is not a number"))
        };
        let values = columns.iter().map(value).collect::<anyhow::Result<_>>()?;
        launches.push((row.get(kernel).unwrap_or_default().to_owned(), values));
    }
    Ok(launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "==PROF== Connected\n\"ID\",\"Kernel Name\",\
        \"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum\",\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\",\
        \"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum\",\"smsp__sass_branch_targets_threads_divergent.sum\"\n\
        \"\",\"\",\"\",\"sector\",\"sector\",\"\"\n\
        \"0\",\"reduce_first\",\"3\",\"1,024\",\"8\",\"0\"\n\"1\",\"reduce_last\",\"0\",\"1\",\"1\",\"5\"\n";

    #[test]
    fn launches_are_read_with_their_metrics() {
        let launches = launches(CSV).unwrap();
        let first = Counts {
            sectors_loaded: Some(1024.0),
            sectors_stored: Some(8.0),
            bank_conflicts: Some(3.0),
            divergent_branches: Some(0.0),
        };
        assert_eq!(launches[0], ("reduce_first".to_owned(), first));
        assert_eq!(launches[1].1.divergent_branches, Some(5.0));
        assert_eq!(launches.len(), 2);
    }

    #[test]
    fn a_file_without_a_metric_says_which() {
        let without = CSV.replace("bank_conflicts", "nothing");
        let error = launches(&without).unwrap_err().to_string();
        assert!(error.contains("no column l1tex__data_bank_conflicts"), "{error}");
    }
}
