//! Reads the head of a PTX file, and checks that the file is complete (PTX ISA, "PTX Module Directives").

use std::fmt;
use std::str::FromStr;

/// The directives at the head of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// `.version`, major and minor.
    pub version: (u32, u32),
    /// `.target`.
    pub target: PtxTarget,
}

/// The architecture that a module is built for.
///
/// ```
/// use ferrowarp::device::PtxTarget;
///
/// let target = PtxTarget { architecture: 80, suffix: None };
/// assert!(target.runs_on(9, 0) && !target.runs_on(7, 5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtxTarget {
    /// Ten times the major plus the minor compute capability.
    pub architecture: u32,
    /// `a` or `f` for a module with instructions of only that architecture.
    pub suffix: Option<char>,
}

impl PtxTarget {
    /// Whether a device of this compute capability runs it. A module runs on any device at least as new; with a suffix, only
    /// on its own architecture.
    pub fn runs_on(&self, major: u32, minor: u32) -> bool {
        let device = major * 10 + minor;
        if self.suffix.is_some() { self.architecture == device } else { self.architecture <= device }
    }

    /// A key to sort modules by: newer architectures rank higher. Within one architecture, a suffix ranks
    /// higher because it allows more instructions.
    pub(super) fn rank(&self) -> (u32, Option<char>) {
        // The suffix `a` allows more instructions than `f`, but is the smaller letter.
        (self.architecture, self.suffix.map(|suffix| if suffix == 'a' { 'z' } else { suffix }))
    }
}

impl fmt::Display for PtxTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compute_{}", self.architecture)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

impl FromStr for PtxTarget {
    type Err = String;

    /// Accepts `compute_90`, `sm_90` and `90`, and refuses what no kernels are built for.
    fn from_str(name: &str) -> Result<Self, String> {
        let short = name.strip_prefix("compute_").or_else(|| name.strip_prefix("sm_")).unwrap_or(name);
        let target = parse_target(&format!("sm_{short}"));
        let exists = |target: &PtxTarget| {
            let first_with_suffix = match target.suffix {
                None => OLDEST,
                Some('a') => 90,
                Some(_) => 100,
            };
            target.architecture >= first_with_suffix
                && architectures!().split(", ").any(|known| known == target.architecture.to_string())
        };
        target.filter(exists).ok_or_else(|| {
            let known = architectures!();
            format!("there are no kernels for `{name}`; name an architecture of {known}, such as compute_90")
        })
    }
}

/// The architectures that kernels can be built for, as `cuda_builder` has them.
macro_rules! architectures {
    () => {
        "75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121"
    };
}
pub(super) use architectures;

/// The oldest of them.
pub(super) const OLDEST: u32 = 75;

/// The newest CUDA version in [`needed_cuda`].
const NEWEST_CUDA: (u32, u32) = (13, 5);

/// The CUDA version that introduced a PTX version (PTX ISA, "Release Notes"); `None` if it is newer than [`NEWEST_CUDA`].
pub(super) fn needed_cuda((major, minor): (u32, u32)) -> Option<(u32, u32)> {
    match (major, minor) {
        (..7, _) => Some((10, 2)),
        (7, _) => Some((11, minor)),
        (8, ..=5) => Some((12, minor)),
        (8, _) => Some((12, minor + 1)),
        (9, _) if minor <= NEWEST_CUDA.1 => Some((13, minor)),
        _ => None,
    }
}

/// Whether a driver for the CUDA version `driver` does not read this PTX version. A driver newer than [`NEWEST_CUDA`] may read
/// any.
pub(super) fn is_too_new(version: (u32, u32), driver: (u32, u32)) -> bool {
    needed_cuda(version).map_or(driver <= NEWEST_CUDA, |needed| needed > driver)
}

/// Reads the head of `ptx` and checks that its braces match.
///
/// # Errors
/// Why it is not valid PTX, in words.
pub(super) fn parse(ptx: &str) -> Result<Header, String> {
    let code = without_comments_and_strings(ptx);
    let header = parse_head(ptx)?;
    let (open, close) = (code.matches('{').count(), code.matches('}').count());
    if open != close {
        return Err(format!("it is truncated or damaged: {open} opening and {close} closing braces"));
    }
    Ok(header)
}

/// Reads the directives at the head of `ptx`; some may be missing.
///
/// # Errors
/// Same as for [`parse`].
pub(super) fn parse_head(ptx: &str) -> Result<Header, String> {
    if ptx.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    // The directives come before any function.
    let code = without_comments_and_strings(ptx.split(".entry").next().unwrap_or_default());
    let directive = |name: &str| {
        code.lines()
            .find_map(|line| {
                line.trim().strip_prefix(name)?.split([',', ' ', '\t']).find(|word| !word.is_empty())
            })
            .ok_or_else(|| format!("it has no `{name}` directive"))
    };
    let version = directive(".version")?;
    let target = directive(".target")?;
    let size = directive(".address_size")?;
    if size != "64" {
        return Err(format!("it is built for {size}-bit addresses, not 64"));
    }
    Ok(Header {
        version: parse_version(version)
            .ok_or_else(|| format!("its version `{version}` is not a PTX version"))?,
        target: parse_target(target)
            .ok_or_else(|| format!("its target `{target}` is not an sm_ architecture"))?,
    })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The architecture in `sm_90a`.
pub(super) fn parse_target(text: &str) -> Option<PtxTarget> {
    let text = text.strip_prefix("sm_")?;
    let digits = text.trim_end_matches(['a', 'f']);
    let suffix = match &text[digits.len()..] {
        "" => None,
        suffix if suffix.len() == 1 => suffix.chars().next(),
        _ => return None,
    };
    Some(PtxTarget { architecture: digits.parse().ok()?, suffix })
}

/// Removes comments and the contents of strings from the text, but keeps line ends.
fn without_comments_and_strings(ptx: &str) -> String {
    let mut code = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while let Some(at) = rest.find(['/', '"']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = rest[2..].find("*/").map_or("", |end| &rest[end + 4..]);
        } else if rest.starts_with('"') {
            rest = rest[1..].find('"').map_or("", |end| &rest[end + 2..]);
        } else {
            code.push('/');
            rest = &rest[1..];
        }
    }
    code.push_str(rest);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "//\n// Generated by NVIDIA NVVM Compiler\n//\n\n.version 8.6\n.target sm_90a, debug\n\
                        .address_size 64\n";

    #[test]
    fn the_head_is_read() {
        let header = parse(&format!("{HEAD}.visible .entry k()\n{{\n\tret;\n}}\n")).unwrap();
        assert_eq!(header.version, (8, 6));
        assert_eq!(header.target, PtxTarget { architecture: 90, suffix: Some('a') });
        assert_eq!(header.target.to_string(), "compute_90a");
    }

    #[test]
    fn drivers_read_the_ptx_of_their_release_and_before() {
        for (ptx, driver, expected) in [
            ((6, 3), (10, 2), false),
            ((7, 8), (11, 8), false),
            ((8, 0), (11, 8), true),
            ((8, 5), (12, 6), false),
            ((8, 6), (12, 6), true),
            ((8, 7), (12, 8), false),
            ((9, 0), (12, 9), true),
            ((8, 6), (13, 0), false),
            ((9, 9), (13, 0), true),
            ((9, 9), (14, 0), false),
        ] {
            assert_eq!(is_too_new(ptx, driver), expected, "PTX {ptx:?} on CUDA {driver:?}");
        }
        assert_eq!((needed_cuda((8, 6)), needed_cuda((9, 9))), (Some((12, 7)), None));
    }

    #[test]
    fn braces_in_comments_and_strings_do_not_count() {
        let body = "// {\n/* { \" */ .file 1 \"a{.rs\"\n.func f() { ret; }";
        assert!(parse(&format!("{HEAD}{body}")).is_ok());
        assert!(parse(&format!("{HEAD}{body} {{")).unwrap_err().contains("2 opening and 1 closing"));
    }

    #[test]
    fn wrong_heads_are_told() {
        for (text, reason) in [
            ("  \n", "is empty"),
            ("// .version 8.6\n", "no `.version`"),
            (".version 8.6\n.address_size 64", "no `.target`"),
            (".version eight\n.target sm_75\n.address_size 64", "`eight`"),
            (".version 8.6\n.target gfx90\n.address_size 64", "`gfx90`"),
            (".version 8.6\n.target sm_75af\n.address_size 64", "`sm_75af`"),
            (".version 8.6\n.target sm_75\n.address_size 32", "32-bit"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
