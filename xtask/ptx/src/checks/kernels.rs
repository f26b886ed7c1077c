//! Finds the kernels of a source, and their attributes, line by line, without a Rust parser.

/// The name in a row of `instances(..)`, such as `softmax_k6_unrolled_64x2 = <64, 2>, widest = 1536;`.
pub(super) fn instance(code: &str) -> Option<&str> {
    let (name, _) = code.trim_start().split_once(" = <")?;
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(name)
}

/// The value of `cpu_only` in a line of `#[kernel(..)]`.
fn cpu_only(line: &str) -> Option<bool> {
    let (code, _) = line.split_once("//").unwrap_or((line, ""));
    let (_, value) = code.split_once("cpu_only")?;
    Some(!value.trim_start_matches([' ', '=']).starts_with("false"))
}

/// The architecture in `arch = "90a"` in a line of `#[kernel(..)]`: `compute_90a`. `Some(None)` for `min_arch`.
fn arch(line: &str) -> Option<Option<String>> {
    let (code, _) = line.split_once("//").unwrap_or((line, ""));
    let is_word = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let value = |(at, word): (usize, &str)| {
        let value = code[at + word.len()..].trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        Some(format!("compute_{}", value.split_once('"')?.0))
    };
    let named = code.match_indices("arch").filter(|(at, _)| is_word(*at)).find_map(value);
    named.map(Some).or_else(|| code.contains("min_arch").then_some(None))
}

/// The names of the functions after a `#[kernel]`, or of the instances in it, except those that no PTX has.
pub(super) fn kernels_in(source: &str) -> Vec<String> {
    kernels_with_archs(source).into_iter().map(|(kernel, _)| kernel).collect()
}

/// The attributes of a kernel, or of the header of a group of instances.
#[derive(Clone, Default)]
struct Said {
    cpu_only: Option<bool>,
    /// The inner `None` is for kernels of several architectures.
    arch: Option<Option<String>>,
}

impl Said {
    fn of(line: &str) -> Said {
        Said { cpu_only: cpu_only(line), arch: arch(line) }
    }

    /// Takes missing attributes from `outer`.
    fn or(self, outer: &Said) -> Said {
        let outer = outer.clone();
        Said { cpu_only: self.cpu_only.or(outer.cpu_only), arch: self.arch.or(outer.arch) }
    }
}

/// Same as [`kernels_in`], each with its only architecture, if it has one.
pub(super) fn kernels_with_archs(source: &str) -> Vec<(String, Option<String>)> {
    let mut kernels = Vec::new();
    let mut push = |name: &str, said: Said| {
        if said.cpu_only != Some(true) {
            kernels.push((name.to_owned(), said.arch.flatten()));
        }
    };
    let (mut marked, mut has_instances) = (false, false);
    let (mut attribute, mut group) = (Said::default(), Said::default());
    for line in source.lines().map(str::trim_start) {
        marked |= line.starts_with("#[kernel]") || line.starts_with("#[kernel(");
        let said = if marked { Said::of(line) } else { Said::default() };
        if let Some(name) = instance(line).filter(|_| marked) {
            push(name, said.or(&group).or(&attribute));
            has_instances = true;
        } else if line.ends_with('{') || line.starts_with('}') {
            group = said;
        } else {
            attribute = attribute.or(&said);
        }
        let words = line.split_once("fn ").filter(|_| marked && !line.starts_with("//"));
        if let Some((_, rest)) = words {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if !has_instances {
                push(name, attribute);
            }
            (marked, has_instances) = (false, false);
            (attribute, group) = Default::default();
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_the_cpu_are_left_out() {
        let source = "#[kernel(\n    instances(\n        one_1 = <1>; // not cpu_only\n        one_2 = <2>, cpu_only = true;\n        \
            cpu_only = true {\n            one_3 = <3>;\n            one_4 = <4>, cpu_only = false;\n        }\n        \
            one_5 = <5>;\n    ),\n)]\npub unsafe fn one<const N: usize>() {\n}\n\
            #[kernel(cpu_only)]\npub unsafe fn two() {}\n#[kernel]\npub unsafe fn three() {}\n\
            #[kernel(\n    cpu_only,\n    instances(\n        four_1 = <1>;\n        four_2 = <2>, cpu_only = false;\n    ),\n\
            )]\npub unsafe fn four<const N: usize>() {}\n";
        assert_eq!(kernels_in(source), ["one_1", "one_4", "one_5", "three", "four_2"]);
    }
}
