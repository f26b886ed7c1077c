//! Tables of PTX bodies and what is to come of them: `cases/*.txt`.
//!
//! A line `body => expectation` is one case; lines that begin with a blank go on with the one before. `## claim` begins a
//! section, with settings of its own: `declare` and `before` are put before the bodies, `launch BLOCKS THREADS [CLUSTER]`,
//! `memory WORDS` at `%out`, 64 without it, `fill NUMBER` for what they hold, `strict` faults on unwritten registers, `cooperative` runs all blocks at once, `let NAME = text` defines what
//! `{NAME}` stands for.
//!
//! An expectation: `%r1 = 5` or `%r1 undefined`, of one thread; `out 1 2`, the first words of the memory; `undefined 4`, the first byte with
//! undefined bits, or `defined`; `fault text .. text`, parts of the message in order; `refused text`, what
//! `PtxModule::unsupported` says; `syntax text`; `counts NAME 1 2 & ..`, what a warp does.

use std::collections::BTreeMap;

use crate::common::{Setup, module};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::LaunchCounts;
use cuda_std::testing::counts::{GlobalRequests, SharedRequests};
use ptx_emulator::{PtxModule, UnwrittenRegisters};

/// The settings of a section.
struct Section {
    declare: String,
    before: String,
    setup: Setup,
    names: BTreeMap<String, String>,
}

impl Section {
    fn new() -> Section {
        Section { declare: String::new(), before: String::new(), setup: Setup::new(), names: BTreeMap::new() }
    }

    fn filled(&self, text: &str) -> String {
        // The values are filled in already, so one pass is enough.
        self.names
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// Whether the line is a setting, which it then makes.
    fn set(&mut self, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = self.filled(rest);
        match word {
            "declare" => self.declare = rest,
            "before" => self.before = rest,
            "launch" => {
                let numbers: Vec<u32> = rest.split(' ').map(|number| number.parse().unwrap()).collect();
                self.setup.config = LaunchConfig::new(numbers[0], numbers[1]);
                if let Some(&cluster) = numbers.get(2) {
                    self.setup.config = self.setup.config.with_cluster(cluster);
                }
            }
            "memory" => self.setup.words = number(&rest) as usize,
            "fill" => self.setup.fill = number(&rest) as u32,
            "cooperative" => self.setup.is_cooperative = true,
            "strict" => self.setup.registers = UnwrittenRegisters::Refused,
            "let" => {
                let (name, value) = rest.split_once(" = ").unwrap();
                self.names.insert(name.to_owned(), value.to_owned());
            }
            _ => return false,
        }
        true
    }

    fn check(&self, body: &str, expectation: &str) -> Result<(), String> {
        let body = format!("{} {}", self.before, self.filled(body));
        let (kind, rest) = expectation.split_once(' ').unwrap_or((expectation, ""));
        let rest = self.filled(rest);
        let store = match kind {
            _ if kind.starts_with("%rd") => format!("st.global.b64 [%out], {kind};"),
            _ if kind.starts_with("%rs") => format!("st.global.b16 [%out], {kind};"),
            _ if kind.starts_with("%p") => {
                format!("selp.b32 %r18, 1, 0, {kind}; st.global.b32 [%out], %r18;")
            }
            _ if kind.starts_with('%') => format!("st.global.b32 [%out], {kind};"),
            _ => String::new(),
        };
        let text = module(&self.declare, &format!("{body}\n{store}"));
        let parsed = match PtxModule::parse(&text) {
            Ok(parsed) => parsed,
            Err(error) => return contains(kind == "syntax", &error.to_string(), &rest),
        };
        let unsupported = parsed.unsupported();
        if kind == "refused" {
            let reasons: Vec<_> = unsupported.into_iter().map(|one| one.reason).collect();
            return contains(reasons.len() == 1, &reasons.join(", "), &rest);
        }
        if kind == "counts" {
            let launch = self.setup.count(parsed);
            return rest.split(" & ").try_for_each(|figures| {
                let (name, numbers) = figures.split_once(' ').unwrap();
                let numbers: Vec<u64> = numbers.split(' ').map(number).collect();
                same(figures_of(&launch, name), numbers).map_err(|error| format!("{name}: {error}"))
            });
        }
        let (out, result) = self.setup.run(parsed);
        match (kind, result) {
            ("fault", Err(error)) => contains(true, &error.to_string(), &rest),
            (_, Err(error)) => Err(error.to_string()),
            ("undefined", Ok(found)) => same(found.map(|byte| byte.index as u64), Some(number(&rest))),
            ("defined", Ok(found)) => same(found, None),
            ("out", Ok(_)) => {
                let words: Vec<u64> = rest.split(' ').map(number).collect();
                same(out[..words.len()].iter().map(|&word| word.into()).collect(), words)
            }
            (_, Ok(found)) if rest == "undefined" => same(found.is_some(), true),
            (_, Ok(found)) if !store.is_empty() => {
                same(found, None)?;
                let value = u64::from(out[0]) | u64::from(out[1]) << 32;
                same(format!("{value:#x}"), format!("{:#x}", number(rest.trim_start_matches("= "))))
            }
            (_, Ok(_)) => Err("no fault".to_owned()),
        }
    }
}

/// Counts by the names of `cases/counts.txt`.
fn figures_of(launch: &LaunchCounts, name: &str) -> Vec<u64> {
    let of = &launch.total;
    let global = |of: GlobalRequests| vec![of.requests, of.sectors, of.lines, of.ideal_sectors, of.bytes];
    let shared = |of: SharedRequests| vec![of.requests, of.wavefronts, of.ideal_wavefronts, of.bytes];
    match name {
        "loads" => global(of.global.loads),
        "stores" => global(of.global.stores),
        "atomics" => global(of.global.atomics),
        "copies" => global(of.global.copies),
        "shared.loads" => shared(of.shared.loads),
        "shared.stores" => shared(of.shared.stores),
        "shared.atomics" => shared(of.shared.atomics),
        "shared.copies" => shared(of.shared.copies),
        "local" => {
            let (loads, stores) = (of.local.loads, of.local.stores);
            vec![loads.requests, loads.bytes, stores.requests, stores.bytes]
        }
        "constant" => vec![of.constant.requests, of.constant.passes],
        "cluster" => vec![of.cluster.requests, of.cluster.bytes],
        "bulk" => vec![of.bulk.loads, of.bulk.loaded_bytes, of.bulk.stores, of.bulk.stored_bytes],
        "branches" => vec![of.branches.executed, of.branches.divergent],
        "instructions" => vec![of.instructions.warps, of.instructions.threads, of.instructions.threads_on],
        "flop" => vec![of.flop.f32, of.flop.f64, of.flop.functions, of.flop.tensor],
        "footprint" => vec![launch.footprint.loaded, launch.footprint.stored],
        "collectives" => {
            let of = of.collectives;
            let barriers = [of.warp_barriers, of.barriers, of.cluster_barriers, of.mbarriers];
            [&[of.shuffles, of.votes][..], &barriers, &[of.matrices]].concat()
        }
        _ => panic!("no counts are called {name}"),
    }
}

fn same<T: PartialEq + core::fmt::Debug>(got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{got:?} instead of {expected:?}")) }
}

/// Whether the parts occur in the text, in order.
fn contains(is_right_kind: bool, text: &str, parts: &str) -> Result<(), String> {
    let mut rest = text;
    for part in parts.split(" .. ").filter(|part| !part.is_empty()) {
        rest = rest.split_once(part).ok_or_else(|| format!("`{text}` without `{part}`"))?.1;
    }
    if is_right_kind { Ok(()) } else { Err(text.to_owned()) }
}

/// A decimal or hexadecimal number; a negative one has 32 bits.
fn number(text: &str) -> u64 {
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix('-')) {
        (Some(digits), _) => u64::from_str_radix(&digits.replace('_', ""), 16),
        (None, Some(digits)) => digits.parse::<u32>().map(|number| number.wrapping_neg().into()),
        (None, None) => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

/// Checks all cases of a table.
fn check(table: &str) {
    let (mut section, mut count, mut wrong) = (Section::new(), 0, Vec::new());
    let mut lines = table.lines().zip(1..).peekable();
    while let Some((line, at)) = lines.next() {
        let mut line = line.to_owned();
        while let Some((more, _)) = lines.next_if(|(next, _)| next.starts_with(' ')) {
            line = format!("{line}\n{}", more.trim_start());
        }
        if line.starts_with("## ") {
            section = Section::new();
        } else if !line.is_empty() && !line.starts_with('#') && !section.set(&line.replace('\n', " ")) {
            let (body, expectation) =
                line.split_once("=>").unwrap_or_else(|| panic!("line {at} has no `=>`"));
            count += 1;
            if let Err(error) = section.check(body.trim_end(), expectation.trim()) {
                wrong.push(format!("line {at}: {}: {error}", body.trim_end()));
            }
        }
    }
    assert!(count > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! tables {
    ($($table:ident)*) => {
        $(
            #[test]
            fn $table() {
                check(include_str!(concat!("cases/", stringify!($table), ".txt")));
            }
        )*
    };
}
tables!(integers floats conversions undefined_bits control lanes refusals copies mbarrier clusters counts system calls matrices);
