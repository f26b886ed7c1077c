//! Searches and replacements in tokens.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::parse::ParseStream;
use syn::{Result, Token};

/// Returns whether `name` is among the tokens.
pub(crate) fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

/// Returns the tokens with `names` replaced by their values.
pub(crate) fn replaced(tokens: TokenStream, names: &[(Ident, TokenStream)]) -> TokenStream {
    let replaced = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), replaced(group.stream(), names));
            inner.set_span(group.span());
            TokenTree::Group(inner).into()
        }
        TokenTree::Ident(ident) => match names.iter().find(|(name, _)| *name == ident) {
            Some((_, value)) => value.clone(),
            None => TokenTree::Ident(ident).into(),
        },
        other => other.into(),
    });
    replaced.collect()
}

/// Reads a comma, unless nothing follows.
pub(crate) fn comma(input: ParseStream<'_>) -> Result<()> {
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok(())
}
