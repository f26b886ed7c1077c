//! The arguments of the attribute.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, ItemFn, Result, Token, Type, parenthesized, token};

use super::eval::{self, CAPABILITIES};
use super::instances::{Instance, Names};
use crate::tokens::{comma, mentions};

/// The known arguments of the attribute; others are ignored.
#[derive(Default)]
pub(super) struct Arguments {
    /// `max_threads = ..`, `min_blocks = ..`, `min_arch = ..`, `arch = ..`.
    bounds: Vec<(Ident, Expr)>,
    /// `cooperative`.
    cooperative: bool,
    /// `cpu_only`, for all instances that do not set it.
    cpu_only: bool,
    /// `args = ..` or `args`: how host code passes the arguments to the kernels of the lists.
    pub args: Option<HostArguments>,
    /// `facts: TYPE = ..`: the facts about each instance for the host.
    pub facts: Option<(Type, Expr)>,
    /// `instances(..)`, with the const parameters of `with(..)` filled in.
    pub instances: Option<Vec<Instance>>,
}

/// The arguments with which host code launches the kernels of a list.
pub(super) enum HostArguments {
    /// `args = TYPE`: a host struct with one field per parameter.
    Fields(Box<Type>),
    /// `args`: the struct that is the kernel's only parameter.
    Only,
}

/// A kernel's launch bounds, 0 if the attribute does not set them.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub min_arch: u32,
    /// Whether only devices of the compute capability `min_arch` run it: its PTX is for `compute_90a` or similar.
    pub arch_specific: bool,
    pub max_threads: u32,
    pub min_blocks: u32,
    /// Whether all blocks of a grid must be alive at once.
    pub cooperative: bool,
    /// Whether only the CPU executor launches it.
    pub cpu_only: bool,
}

const BOUNDS: [(&str, &str); 3] = [
    (
        "min_arch",
        "min_arch is a compute capability as one number, such as 75, 80, 90 or 120: `min_arch = 90`",
    ),
    ("max_threads", "max_threads is the most threads of a block, 1 to 1024: `max_threads = 256`"),
    (
        "min_blocks",
        "min_blocks is the number of blocks that fit a multiprocessor, 1 or more: `min_blocks = 4`",
    ),
];

/// The most threads that a multiprocessor of any GPU runs at once.
const MOST_THREADS: u32 = 2048;

/// Returns whether a launch bound can have this value.
fn is_possible(bound: &str, value: u32) -> bool {
    match bound {
        "max_threads" => (1..=1024).contains(&value),
        "min_blocks" => value > 0,
        _ => value == 0 || CAPABILITIES.contains(&value),
    }
}

/// The setting that names the only architecture of a kernel.
const ARCH: &str = "arch";

/// The setting of an instance that no PTX has.
const CPU_ONLY: &str = "cpu_only";

/// Returns whether this is the name of a launch bound.
pub(super) fn is_bound(name: &Ident) -> bool {
    name == ARCH || BOUNDS.iter().any(|(bound, _)| name == bound)
}

impl Arguments {
    /// Reads the attribute of `function`.
    pub fn of(attribute: TokenStream, function: &ItemFn) -> Result<Arguments> {
        (|input: ParseStream<'_>| Arguments::parse(input, function)).parse2(attribute)
    }

    fn parse(input: ParseStream<'_>, function: &ItemFn) -> Result<Arguments> {
        let mut arguments = Arguments::default();
        let (mut derived, mut instances) = (Vec::new(), None);
        while !input.is_empty() {
            let name = if input.peek(Ident::peek_any) { Some(Ident::parse_any(input)?) } else { None };
            let is = |word: &str| name.as_ref().is_some_and(|name| name == word);
            if name.as_ref().is_some_and(is_bound) && input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                arguments.bounds.extend(name.zip(Some(input.parse()?)));
            } else if is("cooperative") {
                stands_alone(input, "`cooperative` stands alone: `#[kernel(cooperative)]`")?;
                arguments.cooperative = true;
            } else if is(CPU_ONLY) {
                stands_alone(input, "`cpu_only` stands alone here: `#[kernel(cpu_only)]`")?;
                arguments.cpu_only = true;
            } else if is("args") {
                arguments.args = Some(match input.parse::<Option<Token![=]>>()? {
                    Some(_) => HostArguments::Fields(Box::new(input.parse()?)),
                    None => HostArguments::Only,
                });
            } else if is("facts") && input.peek(Token![:]) {
                input.parse::<Token![:]>()?;
                let ty = input.parse()?;
                input.parse::<Token![=]>()?;
                arguments.facts = Some((ty, input.parse()?));
            } else if is("with") && input.peek(token::Paren) {
                let list;
                parenthesized!(list in input);
                while !list.is_empty() {
                    let name: Ident = list.parse()?;
                    list.parse::<Token![=]>()?;
                    derived.push((name, list.parse::<Expr>()?));
                    comma(&list)?;
                }
            } else if is("instances") && input.peek(token::Paren) {
                let list;
                parenthesized!(list in input);
                instances = Some(list.parse::<TokenStream>()?);
            } else {
                // An unknown argument.
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<proc_macro2::TokenTree>()?;
                }
            }
            comma(input)?;
        }
        if let Some(list) = instances {
            let names = Names::of(function, &derived)?;
            let read = (|input: ParseStream<'_>| names.instances(input)).parse2(list)?;
            arguments.check_keys(&read)?;
            arguments.instances = Some(read);
        } else if let Some((name, _)) = derived.first() {
            return Err(Error::new(name.span(), "`with(..)` computes const parameters of `instances(..)`"));
        }
        Ok(arguments)
    }

    /// Refuses settings of instances that nothing reads.
    fn check_keys(&self, instances: &[Instance]) -> Result<()> {
        let is_in_facts = |name: &Ident| {
            self.facts.as_ref().is_some_and(|(_, facts)| mentions(quote::quote!(#facts), name))
        };
        let mut settings = instances.iter().flat_map(|instance| &instance.settings);
        match settings.find(|(name, _)| !is_bound(name) && name != CPU_ONLY && !is_in_facts(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::new(
                name.span(),
                format!(
                    "`{name}` is not a const parameter, a launch bound (arch, min_arch, max_threads, \
                     min_blocks), cpu_only, or a name in `facts`"
                ),
            )),
        }
    }

    /// Returns the launch bounds of an instance, or of a kernel without instances.
    pub fn bounds(&self, instance: Option<&Instance>) -> Result<Bounds> {
        let names = instance.map_or(&[][..], |instance| &instance.arguments);
        let own = instance.map_or(&[][..], |instance| &instance.settings);
        let [min_arch, max_threads, min_blocks] = BOUNDS.map(|(bound, message)| {
            let Some((_, expr)) = own.iter().chain(&self.bounds).find(|(name, _)| name == bound) else {
                return Ok(0);
            };
            let number = eval::integer(expr, names).map_err(|error| match instance {
                Some(_) => error,
                None => Error::new_spanned(expr, message),
            })?;
            let number = u32::try_from(number).map_err(|_| Error::new_spanned(expr, message))?;
            if !is_possible(bound, number) {
                let message = format!("`{bound} = {number}` is not possible: {message}");
                return Err(Error::new_spanned(expr, message));
            }
            Ok(number)
        });
        let (min_arch, max_threads, min_blocks) = (min_arch?, max_threads?, min_blocks?);
        let exact_arch = exact_arch(own, &self.bounds)?;
        let cpu_only = match own.iter().find(|(name, _)| name == CPU_ONLY) {
            Some((_, expr)) => eval::boolean(expr).ok_or_else(|| {
                Error::new_spanned(expr, "cpu_only of an instance is `true` or `false`: `cpu_only = true`")
            })?,
            None => self.cpu_only,
        };
        let (min_arch, arch_specific) = (exact_arch.unwrap_or(min_arch), exact_arch.is_some());
        let cooperative = self.cooperative;
        let bounds = Bounds { min_arch, arch_specific, max_threads, min_blocks, cooperative, cpu_only };
        let most_blocks = MOST_THREADS / max_threads.max(1);
        let message = if min_blocks > 0 && max_threads == 0 {
            "min_blocks needs max_threads: `max_threads = 256, min_blocks = 4`".to_owned()
        } else if min_blocks > most_blocks {
            format!(
                "{min_blocks} blocks of {max_threads} threads do not fit a multiprocessor, which runs at most {MOST_THREADS} \
                 threads; with this max_threads, min_blocks is at most {most_blocks}"
            )
        } else {
            String::new()
        };
        if !message.is_empty() {
            let span = own.iter().chain(&self.bounds).find(|(name, _)| name == "min_blocks");
            return Err(span.map_or_else(
                || Error::new(proc_macro2::Span::call_site(), &message),
                |(name, _)| Error::new(name.span(), &message),
            ));
        }
        Ok(bounds)
    }
}

/// Returns the compute capability of `arch = ..`, from the instance or else from the attribute. A `min_arch` of the
/// instance itself hides an `arch` of the attribute.
fn exact_arch(own: &[(Ident, Expr)], attribute: &[(Ident, Expr)]) -> Result<Option<u32>> {
    for level in [own, attribute] {
        let find = |name: &str| level.iter().find(|(setting, _)| setting == name);
        match (find(ARCH), find(BOUNDS[0].0)) {
            (Some((name, _)), Some(_)) => {
                let message = "`arch` names the only architecture of the kernel; remove min_arch";
                return Err(Error::new(name.span(), message));
            }
            (Some((_, expr)), None) => return eval::specific_arch(expr).map(Some),
            (None, Some(_)) => return Ok(None),
            (None, None) => {}
        }
    }
    Ok(None)
}

/// Refuses a value for a word that takes none.
fn stands_alone(input: ParseStream<'_>, message: &str) -> Result<()> {
    if input.is_empty() || input.peek(Token![,]) { Ok(()) } else { Err(input.error(message)) }
}

#[cfg(test)]
mod tests {
    use super::CAPABILITIES;

    #[test]
    fn the_capabilities_are_those_of_the_builder() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cuda_builder/src/arch.rs");
        let source = std::fs::read_to_string(path).unwrap();
        let (_, older) = source.split_once("OLDER: [u32; 9] = [").unwrap();
        let (older, _) = older.split_once(']').unwrap();
        let older: Vec<u32> = older.split(", ").map(|number| number.parse().unwrap()).collect();
        for number in 0..200 {
            let is_known = older.contains(&number) || source.contains(&format!(" = {number} Base "));
            assert_eq!(CAPABILITIES.contains(&number), is_known, "{number}");
        }
    }
}
