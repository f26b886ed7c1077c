//! The subject of a page, as a value, and what the engine does with it: it merges the runs, checks their figures, and writes the
//! page with every figure, the charts and the sections of other pages.

use std::collections::BTreeMap;

use crate::report::ladder::Section;
use crate::report::markdown::{number_of, or_empty, percent, time, times, update_page, used};
use crate::report::peaks::{self, Check, Peaks};
use crate::report::results::{Results, Timed, merged, stem};
use crate::report::stale;
use crate::workspace;

/// Shapes with their own row in the summary, after all shapes of their table.
pub type Group = (&'static str, fn(&Timed) -> bool);

/// A chart: the end of its file's name, its description, and what draws it.
pub type Drawing = (&'static str, &'static str, fn(&Results) -> anyhow::Result<String>);

/// The subject of a page.
pub struct Subject {
    /// The stem of its files.
    pub name: &'static str,
    pub title: &'static str,
    /// The meaning of a row of the tables, and how it was measured.
    pub about: &'static str,
    /// Whether it is the library's operation, neither a rung nor a peer.
    pub is_ours: fn(&Timed) -> bool,
    /// The peers by their names in the files and on the pages, without the copy.
    pub peers: &'static [(&'static str, &'static str)],
    /// The fields that determine an entry's table, in addition to its type.
    pub tables: &'static [&'static str],
    /// The fields that determine a row.
    pub rows: &'static [&'static str],
    pub groups: &'static [Group],
    /// GB/s or TFLOP/s.
    pub unit: &'static str,
    /// The minimum work for the rate: a rate of 1 in the unit does a thousand of it in a microsecond.
    pub work: fn(&Timed) -> f64,
    /// The least bytes to move.
    pub bytes: fn(&Timed) -> f64,
    /// Fewer bytes may partly come from a cache.
    pub cached: f64,
    /// The peak of the unit.
    pub peak: fn(&Timed, &Peaks) -> f64,
    /// Further checks.
    pub check: fn(&Results, &mut Check),
    pub sources: &'static [&'static str],
    pub charts: &'static [Drawing],
    /// The page, if it is not the usual one.
    pub page: Option<fn(&Results) -> anyhow::Result<String>>,
    /// More of the usual page, after the tables.
    pub more: fn(&Results) -> String,
    /// Sections of other pages, from the results of all GPUs, the main one first.
    pub sections: fn(&[Results]) -> anyhow::Result<Vec<Section>>,
}

/// Our entries at a problem, and the others'.
pub struct Contest<'a> {
    /// From the last run.
    pub ours: &'a Timed,
    all: Vec<&'a Timed>,
    /// The fastest copy of as many bytes.
    pub copy: Option<&'a Timed>,
}

impl<'a> Contest<'a> {
    /// A contender's entry from the last run that timed it; the first one of that run.
    pub fn entry(&self, name: &str) -> Option<&'a Timed> {
        let of_name = self.all.iter().rev().filter(|entry| entry.name == name).copied();
        of_name.max_by_key(|entry| (entry.microseconds.is_some(), entry.run))
    }

    /// The time of a contender divided by another's, in the last run that timed both.
    pub fn ratio(&self, name: &str, other: &str) -> Option<f64> {
        let ratio = |entry: &&Timed| {
            let same_run = self.all.iter().find(|it| it.name == other && it.run == entry.run)?;
            Some((entry.run, entry.microseconds? / same_run.microseconds?))
        };
        let ratios = self.all.iter().rev().filter(|entry| entry.name == name).filter_map(ratio);
        ratios.max_by_key(|(run, _)| *run).map(|(_, ratio)| ratio)
    }

    /// The time of a peer divided by ours.
    pub fn lead(&self, name: &str) -> Option<f64> {
        self.ratio(name, &self.ours.name)
    }

    /// The same for the fastest peer, with its name on the pages.
    pub fn least(&self, subject: &Subject) -> Option<(f64, &'static str)> {
        let leads = subject.peers.iter().filter_map(|(name, shown)| Some((self.lead(name)?, *shown)));
        leads.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Our bandwidth as a share of the copy's.
    pub fn share_of_copy(&self, subject: &Subject) -> Option<f64> {
        let rate = |entry: &Timed| Some((subject.bytes)(entry) / entry.microseconds?);
        Some(rate(self.ours)? / rate(self.copy?)?)
    }

    /// Our error, and the smallest of the peers'.
    fn errors(&self, subject: &Subject) -> Option<[f64; 2]> {
        let is_peer = |entry: &&&Timed| subject.peers.iter().any(|(name, _)| *name == entry.name);
        let errors = self.all.iter().filter(is_peer).filter_map(|entry| entry.figure("relative_error"));
        Some([self.ours.figure("relative_error")?, errors.min_by(f64::total_cmp)?])
    }
}

/// A table's title, and its contests.
pub type Contests<'a> = (String, Vec<Contest<'a>>);

impl Subject {
    /// Merges `new` figures, and writes everything that shows this subject, except the README.
    pub fn run(&self, new: Option<Results>) -> anyhow::Result<()> {
        let docs = workspace::root().join("docs");
        if let Some(results) = &new {
            self.check(results)?;
            results.write(&docs.join(format!("results/{}.json", stem(self.name, &results.machine))))?;
        }
        let all = merged(self.name)?;
        let all = all.iter().map(|path| Results::read_and_date(path, self.sources));
        let all: Vec<Results> = all.collect::<anyhow::Result<_>>()?;
        for results in &all {
            self.check(results)?;
            let stem = stem(self.name, &results.machine);
            workspace::write(&docs.join(format!("results/{stem}.md")), &self.page(results)?)?;
            for (end, _, draw) in self.charts {
                workspace::write(&docs.join(format!("{stem}{end}.svg")), &draw(results)?)?;
            }
            println!("written to docs/results/{stem}.md");
        }
        for (page, name, text) in (self.sections)(&all)? {
            update_page(page, &name, &text)?;
        }
        Ok(())
    }

    /// The name of a contender on the pages.
    pub fn shown(&self, name: &str) -> String {
        self.peers.iter().find(|(known, _)| *known == name).map_or(name, |(_, shown)| shown).to_owned()
    }

    /// The rate of an entry in the unit.
    pub fn rate(&self, entry: &Timed) -> Option<f64> {
        Some((self.work)(entry) / entry.microseconds? / 1e3)
    }

    /// GB/s of an entry.
    pub fn bandwidth(&self, entry: &Timed) -> Option<f64> {
        Some((self.bytes)(entry) / entry.microseconds? / 1e3)
    }

    /// The problem of an entry, as in the first column of the tables.
    pub fn problem(&self, entry: &Timed) -> String {
        entry.of(self.rows).join(" x ")
    }

    /// Checks that no rate exceeds the GPU's peaks.
    pub fn check(&self, results: &Results) -> anyhow::Result<()> {
        let Some(peaks) = peaks::of(&results.machine) else { return Ok(()) };
        let mut check = Check::default();
        for entry in results.all().filter(|entry| entry.name != IN_CACHE) {
            let fields = [self.tables, &["dtype"]].concat();
            let what = || format!("{}, {} {}", entry.name, entry.of(&fields).join(" "), self.problem(entry));
            if let Some(rate) = self.rate(entry).filter(|_| self.unit != "GB/s" && !entry.is_copy()) {
                check.rate(what, rate, (self.peak)(entry, &peaks), self.unit);
            }
            if let Some(rate) = self.bandwidth(entry).filter(|_| (self.bytes)(entry) > self.cached) {
                check.rate(what, rate, peaks.gigabytes_per_second, "GB/s");
            }
        }
        (self.check)(results, &mut check);
        check.finish()
    }

    /// The contests of each table, in the order of the run.
    pub fn contests<'a>(&self, results: &'a Results) -> Vec<Contests<'a>> {
        let fields = [self.tables, &["dtype"], self.rows].concat();
        let mut at: BTreeMap<Vec<String>, Vec<&Timed>> = BTreeMap::new();
        for entry in results.all() {
            at.entry(entry.of(&fields)).or_default().push(entry);
        }
        let copies: Vec<&Timed> = results.all().filter(|entry| entry.is_copy()).collect();
        let mut tables: Vec<Contests<'_>> = Vec::new();
        for ours in results.ours.iter().filter(|entry| (self.is_ours)(entry)) {
            let title = self.table_of(ours);
            let place = tables.iter().position(|(known, _)| *known == title).unwrap_or(tables.len());
            if place == tables.len() {
                tables.push((title, Vec::new()));
            }
            let contests = &mut tables[place].1;
            if let Some(known) = contests.iter_mut().find(|it| it.ours.of(&fields) == ours.of(&fields)) {
                known.ours = ours;
                continue;
            }
            let all = at[&ours.of(&fields)].clone();
            let own = all
                .iter()
                .filter(|it| it.name == "copy")
                .max_by_key(|it| (it.microseconds.is_some(), it.run))
                .copied();
            contests.push(Contest { ours, all, copy: own.or_else(|| self.best_copy(ours, &copies)) });
        }
        tables
    }

    /// Title of the table that an entry belongs to.
    pub fn table_of(&self, entry: &Timed) -> String {
        let fields = self.tables.iter().filter_map(|field| {
            let text = entry.text(field);
            match text.as_str() {
                "" | "false" | "normal" => None,
                "true" => Some((*field).to_owned()),
                number if number.parse::<f64>().is_ok() => {
                    Some(format!("{} {number}", field.replace('_', " ")))
                }
                _ => Some(text),
            }
        });
        fields.chain([entry.text("dtype")]).collect::<Vec<_>>().join(", ")
    }

    /// The fastest copy of that many bytes, or half an element off: by a kernel of ours or the driver.
    fn best_copy<'a>(&self, ours: &Timed, copies: &[&'a Timed]) -> Option<&'a Timed> {
        let bytes = |entry: &Timed| entry.element_bytes() * entry.number("rows") * entry.number("cols");
        let is_as_large = |entry: &&&Timed| (bytes(entry) / bytes(ours) - 1.0).abs() < 1e-3;
        let fastest = |entry: &&&Timed| self.bandwidth(entry).map(|rate| rate.to_bits());
        copies.iter().filter(is_as_large).max_by_key(fastest).copied()
    }

    /// The page of a machine.
    pub fn page(&self, results: &Results) -> anyhow::Result<String> {
        if let Some(page) = self.page {
            return page(results);
        }
        let tables = self.contests(results);
        let Subject { name, title, about, .. } = self;
        let mut text = format!(
            "# {title} on an {}: all figures\n\n{}.\n\n{about} L2 is cold. Each time is the median of the rounds, by events \
             around CUDA graphs. A ratio is the other one's time over ours: over 1 means that ours is faster. Written by \
             `cargo xtask report {name}`.\n\n",
            results.machine,
            results.provenance(),
        );
        if !results.changed_since.is_empty() {
            text += &format!("{}\n\n", stale::note(&results.changed_since));
        }
        for (end, what, _) in self.charts {
            text += &format!("![{what}](../{}{end}.svg)\n\n", stem(name, &results.machine));
        }
        text += &format!("## Summary\n\n{}", self.summary(results));
        for (title, contests) in &tables {
            text += &format!("\n## {title}\n\n{}", self.table(contests));
        }
        text += &(self.more)(results);
        let failures =
            results.failures(|it| [format!(", {}", self.table_of(it)), self.problem(it).replace(' ', "")]);
        Ok(text + &failures)
    }

    /// The means of each table over all peers and over each.
    pub fn summary(&self, results: &Results) -> String {
        let tables = self.contests(results);
        let has_lead = |name: &str| tables.iter().any(|(_, all)| all.iter().any(|c| c.lead(name).is_some()));
        let peers: Vec<_> = self.peers.iter().filter(|(name, _)| has_lead(name)).collect();
        let mut header = vec!["", "fastest peer", "least", "at", "problems", "largest error"];
        header.extend(peers.iter().map(|(_, shown)| *shown));
        let mut rows = Vec::new();
        for (title, contests) in &tables {
            let everything: [Group; 1] = [("", |_| true)];
            for (name, is_in) in everything.iter().chain(self.groups) {
                let contests: Vec<&Contest<'_>> = contests.iter().filter(|c| is_in(c.ours)).collect();
                let leads = contests.iter().filter_map(|c| Some((c.least(self)?.0, self.problem(c.ours))));
                let leads: Vec<(f64, String)> = leads.collect();
                let Some((least, at)) = leads.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
                let errors = contests.iter().filter_map(|c| c.errors(self)).map(|[ours, peer]| ours / peer);
                let worst = errors.filter(|ratio| ratio.is_finite()).max_by(f64::total_cmp);
                let mean = geometric_mean(&leads.iter().map(|(lead, _)| *lead).collect::<Vec<_>>());
                let title = if name.is_empty() { title.clone() } else { format!("{title}, {name}") };
                let count = leads.len().to_string();
                let mut cells =
                    vec![title, times(mean), times(Some(*least)), at.clone(), count, times(worst)];
                cells.extend(peers.iter().map(|(peer, _)| {
                    let leads: Vec<f64> = contests.iter().filter_map(|c| c.lead(peer)).collect();
                    or_empty(geometric_mean(&leads), |mean| {
                        format!("{} ({})", times(Some(mean)), leads.len())
                    })
                }));
                rows.push(cells);
            }
        }
        let missing: Vec<String> = self.missing(results);
        let missing = if missing.is_empty() {
            String::new()
        } else {
            format!(" Not in this run: {}.", missing.join(", "))
        };
        format!(
            "The fastest peer's time over ours: geometric mean, and least. For each peer, the mean over the problems that both \
             ran.{missing}\n\n{}",
            used(&header, 1, rows)
        )
    }

    /// The peers without any time, and the reason if the run states it.
    fn missing(&self, results: &Results) -> Vec<String> {
        let is_timed = |name: &str| results.peers.iter().any(|e| e.name == name && e.microseconds.is_some());
        let absent = self.peers.iter().filter(|(name, _)| !is_timed(name));
        let named = absent.filter_map(|(name, shown)| {
            let mut entries = results.peers.iter().filter(|entry| entry.name == *name);
            let error = entries.find_map(|entry| entry.error.as_ref());
            let why = results.missing.get(*name).or(error)?;
            Some(format!("{shown} ({})", why.lines().next().unwrap_or_default()))
        });
        named.collect()
    }

    /// Every figure of a table.
    fn table(&self, contests: &[Contest<'_>]) -> String {
        let rows = self.rows.join(" x ");
        let mut header = vec![rows.as_str(), "kernel", "time", self.unit, "of the copy"];
        header.extend(self.peers.iter().map(|(_, shown)| *shown));
        header.extend(["error / a peer's", "clock", "power"]);
        let row = |contest: &Contest<'_>| {
            let ours = contest.ours;
            let kernel = ours.text("kernels");
            let mut line = vec![
                self.problem(ours),
                if kernel.is_empty() { kernel } else { format!("`{kernel}`") },
                ours.microseconds.map_or_else(|| "failed".to_owned(), time),
                number_of(self.rate(ours)),
                percent(contest.share_of_copy(self)),
            ];
            line.extend(self.peers.iter().map(|(name, _)| times(contest.lead(name))));
            line.push(or_empty(contest.errors(self), |[ours, peer]| format!("{ours:.2e} / {peer:.2e}")));
            line.extend(clock_and_power(ours));
            line
        };
        used(
            &header,
            if contests.iter().any(|c| c.ours.other.contains_key("kernels")) { 2 } else { 1 },
            contests.iter().map(row).collect(),
        )
    }
}

/// A copy within L2, whose rate is not memory's.
pub const IN_CACHE: &str = "clone in cache";

/// Clock and power after a turn.
pub fn clock_and_power(entry: &Timed) -> [String; 2] {
    let numbers = entry.other.get("clock_and_power").and_then(|value| value.as_array());
    let at = |place: usize, unit: &str| {
        let number = numbers.and_then(|numbers| numbers.get(place)?.as_f64());
        or_empty(number, |number| format!("{number:.0} {unit}"))
    };
    [at(0, "MHz"), at(1, "W")]
}

/// The geometric mean; `None` without figures.
pub fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logarithms: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logarithms / figures.len() as f64).exp())
}
