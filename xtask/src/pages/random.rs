//! Random problems, by family: how much slower the fastest peer is, and the ten worst.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::pages::rows::TURNS;
use crate::report::{Results, Subject, Timed, geometric_mean, or_empty, table, time, times};

pub const RANDOM: Subject = Subject {
    name: "random",
    is_ours: |entry| entry.name == "ours",
    sources: &[
        "gpu-kernels/softmax/src",
        "gpu-kernels/matmul/src",
        "gpu-kernels/attention/src",
        "gpu-kernels/norm/src",
        "gpu-kernels/axis/src",
        "host/src",
        "host/cases/src/random",
    ],
    page: Some(page),
    sections: |all| Ok(vec![("README.md", "random".to_owned(), section(&all[0])?)]),
    ..TURNS
};

/// Problems in the tables of the worst.
const WORST: usize = 10;

/// The rows of the README, and the families in each.
const ROWS: [(&str, &[&str]); 8] = [
    ("softmax, cross entropy, and gradients", &["softmax", "softmax gradient", "cross entropy"]),
    ("top-k, sampling", &["top-k", "sampling"]),
    ("norms and gradients", &["norm", "norm gradient"]),
    (
        "reductions, cumulative sums, transposes",
        &["row reduction", "column reduction", "cumulative sum", "transpose"],
    ),
    ("matrix multiplication", &["matmul"]),
    ("matrix multiplication with epilogue", &["matmul with epilogue"]),
    ("attention", &["attention", "attention of few queries"]),
    ("attention gradients", &["attention gradient"]),
];

/// Words in the error of a problem that the device has no kernel for.
const REFUSED: &str = "no kernel: ";

/// A problem that ours and a peer were timed at.
struct Contest<'a> {
    ours: &'a Timed,
    /// The fastest peer.
    peer: &'a Timed,
    /// Its time divided by ours.
    ratio: f64,
}

impl Contest<'_> {
    /// Our fastest other kernels, and their time in microseconds.
    fn other(&self) -> Option<(String, f64)> {
        let all = self.ours.other.get("others")?.as_array()?.iter();
        let all = all.filter_map(|it| Some((it.get(1)?.as_str()?.to_owned(), it.get(0)?.as_f64()?)));
        all.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// A family's problems.
#[derive(Default)]
struct Family<'a> {
    contests: Vec<Contest<'a>>,
    /// Those that the device has no kernel for, as documented.
    refused: Vec<&'a Timed>,
    /// Those that no peer can do.
    alone: usize,
}

impl Family<'_> {
    /// The geometric mean of the ratios, their 5th percentile and the least.
    fn ratios(&self) -> [Option<f64>; 3] {
        let mut all: Vec<f64> = self.contests.iter().map(|contest| contest.ratio).collect();
        all.sort_by(f64::total_cmp);
        [geometric_mean(&all), percentile(&all, 0.05), all.first().copied()]
    }
}

/// A percentile of sorted numbers, interpolated.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

/// The problems by family.
///
/// # Errors
/// A result of ours was wrong, or a launch failed.
fn families(results: &Results) -> anyhow::Result<BTreeMap<String, Family<'_>>> {
    let mut families: BTreeMap<String, Family<'_>> = BTreeMap::new();
    let wrong: Vec<String> = results
        .ours
        .iter()
        .filter_map(|ours| {
            let error = ours.error.as_ref().filter(|error| !error.contains(REFUSED))?;
            Some(format!("{}: {error}", ours.text("problem")))
        })
        .collect();
    ensure!(wrong.is_empty(), "{} problems failed; fix them first:\n{}", wrong.len(), wrong.join("\n"));
    let mut peers: BTreeMap<[String; 2], Vec<&Timed>> = BTreeMap::new();
    let key = |entry: &Timed| ["seed", "index"].map(|field| entry.text(field));
    for peer in results.peers.iter().filter(|peer| peer.microseconds.is_some()) {
        peers.entry(key(peer)).or_default().push(peer);
    }
    for ours in &results.ours {
        let family = families.entry(ours.text("family")).or_default();
        let Some(took) = ours.microseconds else {
            family.refused.push(ours);
            continue;
        };
        let others = peers.get(&key(ours)).into_iter().flatten().copied();
        let timed = others.filter_map(|peer| Some((peer, peer.microseconds?)));
        match timed.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some((peer, best)) => family.contests.push(Contest { ours, peer, ratio: best / took }),
            None => family.alone += 1,
        }
    }
    families.values_mut().for_each(|family| family.contests.sort_by(|a, b| a.ratio.total_cmp(&b.ratio)));
    Ok(families)
}

fn page(results: &Results) -> anyhow::Result<String> {
    let families = families(results)?;
    let mut seeds: Vec<String> = results.ours.iter().map(|ours| ours.text("seed")).collect();
    seeds.dedup();
    let mut page = format!(
        "# Random problems\n\n{}; seed {}.\n\n\
         Every problem follows from the seed: half of the sizes are those of well-known models, the others are drawn evenly as logarithms; \
         half of the operands are dense, a third have gaps and rows at multiples of 16 bytes, and the others start at any element. \
         `host/cases/src/random/bench` draws them; `cargo bench random` and `benches/peers/random_problems.py` time them in turns, \
         with a cold L2 cache, and check every result with f64. A ratio is the time of the fastest peer divided by ours: over 1, ours \
         is faster. The peers are PyTorch, cuBLASLt (the fastest of up to 8 algorithms), the kernels behind \
         `scaled_dot_product_attention` (FlashAttention 2, cuDNN, memory-efficient) and, for some problems, torch.compile. Their \
         results are dense. Where a peer is faster, all of our kernels for the problem were timed once more: another one that is \
         faster than the chosen one is a wrong choice, otherwise a kernel is missing. Written by `cargo xtask report random`.\n\n",
        results.provenance(),
        seeds.join(", ")
    );
    let rows = families.iter().map(|(name, family)| {
        let [mean, low, least] = family.ratios().map(times);
        let counts =
            [family.contests.len(), family.refused.len(), family.alone].map(|count| count.to_string());
        let [problems, refused, alone] = counts;
        vec![name.clone(), problems, mean, low, least, refused, alone]
    });
    let header = [
        "family",
        "problems",
        "geometric mean",
        "5th percentile",
        "least",
        "without a kernel",
        "without a peer",
    ];
    page += &table(&header, 1, &rows.collect::<Vec<_>>());
    for (name, family) in &families {
        let header = [
            "problem",
            "kernels",
            "fastest peer",
            "other kernels",
            "time",
            "peer's time",
            "other's time",
            "ratio",
            "error",
            "peer's error",
        ];
        let rows = family.contests.iter().take(WORST).map(|contest| {
            let Contest { ours, peer, ratio } = contest;
            let (other, of_other) = contest.other().unzip();
            let error =
                |entry: &Timed| or_empty(entry.figure("relative_error"), |error| format!("{error:.1e}"));
            vec![
                ours.text("problem"),
                ours.text("kernels"),
                peer.name.clone(),
                other.unwrap_or_default(),
                or_empty(ours.microseconds, time),
                or_empty(peer.microseconds, time),
                or_empty(of_other, time),
                times(Some(*ratio)),
                error(ours),
                error(peer),
            ]
        });
        page += &format!("\n## {name}: the worst\n\n{}", table(&header, 4, &rows.collect::<Vec<_>>()));
        for refused in &family.refused {
            let error = refused.error.as_deref().unwrap_or_default();
            let reason = error.split_once(REFUSED).map_or(error, |(_, reason)| reason);
            page += &format!("\n- {}: {reason}\n", refused.text("problem"));
        }
    }
    Ok(page)
}

/// The table in the README.
fn section(results: &Results) -> anyhow::Result<String> {
    let mut families = families(results)?;
    let rows = ROWS.iter().map(|(name, of)| {
        let mut all = Family::default();
        for family in of.iter().filter_map(|name| families.remove(*name)) {
            all.contests.extend(family.contests);
        }
        let [mean, low, _] = all.ratios().map(times);
        vec![(*name).to_owned(), all.contests.len().to_string(), mean, low]
    });
    let header = ["operations", "problems", "geometric mean", "5th percentile"];
    let rows: Vec<_> = rows.collect();
    ensure!(families.is_empty(), "no row of the README has the families {:?}", families.keys());
    Ok(format!(
        "{}\nMeasured on: {}. Written by `cargo xtask report random`.\n",
        table(&header, 1, &rows),
        results.provenance()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pages::tests::{has, results};

    #[test]
    fn the_worst_come_first_and_wrong_results_are_refused() {
        let at = |index: usize, name: &str, microseconds: f64| {
            json!({"name": name, "index": index, "seed": 5, "family": "softmax", "problem": format!("problem {index}"),
                "kernels": "softmax_k", "microseconds": microseconds, "relative_error": 1e-3})
        };
        let mut slow = at(1, "ours", 4.0);
        slow["others"] = json!([[5.0, "softmax_a"], [3.0, "softmax_b"]]);
        let failed = |error: &str| json!({"name": "ours", "index": 3, "seed": 5, "family": "softmax", "problem": "problem 3", "error": error});
        let ours = [
            at(0, "ours", 1.0),
            slow,
            at(2, "ours", 1.0),
            failed("no kernel: the head size must be 1 to 256"),
        ];
        let peers = [at(0, "torch", 2.0), at(1, "torch", 2.0), at(1, "compile", 3.0)];
        let page = page(&results(&ours, &peers)).unwrap();
        has(
            &page,
            &[
                "; seed 5.\n",
                "| softmax | 2 | 1.00 x | 0.57 x | 0.50 x | 1 | 1 |\n",
                "| problem 1 | softmax_k | torch | softmax_b | 4.0 us | 2.0 us | 3.0 us | 0.50 x | 1.0e-3 | 1.0e-3 |\n| problem 0 |",
                "\n- problem 3: the head size must be 1 to 256\n",
            ],
        );
        let error = super::page(&results(&[failed("result[0] is 1")], &[])).unwrap_err().to_string();
        assert!(
            error.contains("1 problems failed") && error.contains("problem 3: result[0] is 1"),
            "{error}"
        );
    }

    #[test]
    fn percentiles_are_interpolated() {
        assert_eq!(percentile(&[], 0.05), None);
        assert_eq!(percentile(&[3.0], 0.05), Some(3.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.25), Some(1.5));
    }
}
