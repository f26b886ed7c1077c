//! `instances(..)`: the list of a generic kernel's entry points.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, GenericArgument, GenericParam, ItemFn, Result, Token, Type, braced, bracketed,
    token,
};

use super::eval;
use crate::tokens::{comma, replaced};

/// An entry point: the function with its type and const parameters filled in.
pub(super) struct Instance {
    pub name: Ident,
    /// The value of each generic parameter, in order.
    pub arguments: Vec<(Ident, TokenStream)>,
    /// `name = expression` for other names, innermost first: launch bounds, and names in `facts`.
    pub settings: Vec<(Ident, Expr)>,
    /// `#[cfg(..)]` of its group.
    pub cfg: Option<Attribute>,
}

/// The generic parameters of a kernel, and those of them that are computed from others.
pub(super) struct Names<'a> {
    all: Vec<&'a GenericParam>,
    derived: &'a [(Ident, Expr)],
}

/// The settings of a group's header for its instances.
#[derive(Clone, Default)]
struct Header {
    arguments: Vec<(Ident, TokenStream)>,
    settings: Vec<(Ident, Expr)>,
    cfg: Option<Attribute>,
}

fn name_of(param: &GenericParam) -> &Ident {
    match param {
        GenericParam::Type(ty) => &ty.ident,
        GenericParam::Const(constant) => &constant.ident,
        GenericParam::Lifetime(lifetime) => &lifetime.lifetime.ident,
    }
}

impl<'a> Names<'a> {
    pub fn of(function: &'a ItemFn, derived: &'a [(Ident, Expr)]) -> Result<Self> {
        let all = function.sig.generics.params.iter();
        let all: Vec<_> = all.filter(|param| !matches!(param, GenericParam::Lifetime(_))).collect();
        let is_const = |name: &Ident| {
            all.iter().any(|param| matches!(param, GenericParam::Const(_)) && name_of(param) == name)
        };
        match derived.iter().find(|(name, _)| !is_const(name)) {
            Some((name, _)) => Err(Error::new(name.span(), format!("`{name}` is not a const parameter"))),
            None => Ok(Names { all, derived }),
        }
    }

    fn find(&self, name: &Ident) -> Option<&'a GenericParam> {
        self.all.iter().copied().find(|param| name_of(param) == name)
    }

    /// Reads the list: instances, and groups of them with a header.
    pub fn instances(&self, input: ParseStream<'_>) -> Result<Vec<Instance>> {
        let mut instances = Vec::new();
        while !input.is_empty() {
            let ahead = input.fork();
            let is_instance =
                Name::parse(&ahead).is_ok() && ahead.parse::<Token![=]>().is_ok() && ahead.peek(Token![<]);
            if is_instance {
                instances.push(self.instance(input, &Header::default())?);
                continue;
            }
            let headers = self.headers(input)?;
            let rows;
            braced!(rows in input);
            for header in headers {
                let rows = rows.fork();
                while !rows.is_empty() {
                    instances.push(self.instance(&rows, &header)?);
                }
            }
            // The forks have read the rows.
            rows.parse::<TokenStream>()?;
        }
        for (i, instance) in instances.iter().enumerate() {
            if instances[..i].iter().any(|other| other.name == instance.name) {
                let message = format!("two instances are called `{}`", instance.name);
                return Err(Error::new(instance.name.span(), message));
            }
        }
        Ok(instances)
    }

    /// `for T in [a, b], NAME = value, ..`, up to the brace: a header for each type. `#[cfg(..)]` may come first.
    fn headers(&self, input: ParseStream<'_>) -> Result<Vec<Header>> {
        let mut attributes = input.call(Attribute::parse_outer)?.into_iter();
        let cfg = attributes.next();
        if let Some(other) =
            cfg.iter().find(|attr| !attr.path().is_ident("cfg")).or(attributes.next().as_ref())
        {
            return Err(Error::new_spanned(
                other,
                "a group of instances has no attribute but one `#[cfg(..)]`",
            ));
        }
        let mut headers = vec![Header { cfg, ..Header::default() }];
        while !input.peek(token::Brace) {
            if input.peek(Token![for]) {
                input.parse::<Token![for]>()?;
                let name: Ident = input.parse()?;
                self.known(&name)?;
                input.parse::<Token![in]>()?;
                let list;
                bracketed!(list in input);
                let values = Punctuated::<GenericArgument, Token![,]>::parse_terminated(&list)?;
                headers = headers
                    .iter()
                    .flat_map(|header| {
                        values.iter().map(|value| {
                            let mut header = header.clone();
                            header.arguments.push((name.clone(), value.to_token_stream()));
                            header
                        })
                    })
                    .collect();
            } else {
                let name: Ident = input.parse()?;
                input.parse::<Token![=]>()?;
                match self.find(&name) {
                    Some(GenericParam::Type(_)) => {
                        let ty = input.parse::<Type>()?.to_token_stream();
                        headers.iter_mut().for_each(|header| {
                            let ty = replaced(ty.clone(), &header.arguments);
                            header.arguments.push((name.clone(), ty));
                        });
                    }
                    Some(_) => {
                        let value = input.call(Expr::parse_without_eager_brace)?;
                        headers.iter_mut().for_each(|header| {
                            header.arguments.push((name.clone(), value.to_token_stream()));
                        });
                    }
                    None => {
                        let value = input.call(Expr::parse_without_eager_brace)?;
                        headers
                            .iter_mut()
                            .for_each(|header| header.settings.push((name.clone(), value.clone())));
                    }
                }
            }
            if !input.peek(token::Brace) {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(headers)
    }

    fn known(&self, name: &Ident) -> Result<&'a GenericParam> {
        let message =
            || Error::new(name.span(), format!("`{name}` is not a type or const parameter of the kernel"));
        self.find(name).ok_or_else(message)
    }

    /// `name = <arguments>, setting = .., ..;`: the parameters that neither the header nor `with(..)` sets.
    fn instance(&self, input: ParseStream<'_>, header: &Header) -> Result<Instance> {
        let name = Name::parse(input)?;
        input.parse::<Token![=]>()?;
        let open = input.parse::<Token![<]>()?;
        let mut values = Vec::new();
        while !input.peek(Token![>]) {
            values.push(input.parse::<GenericArgument>()?);
            if !input.peek(Token![>]) {
                input.parse::<Token![,]>()?;
            }
        }
        input.parse::<Token![>]>()?;
        let mut settings = Vec::new();
        while !input.peek(Token![;]) {
            input.parse::<Token![,]>()?;
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            settings.push((name, input.parse()?));
        }
        input.parse::<Token![;]>()?;
        let (own, mut settings): (Vec<_>, Vec<_>) =
            settings.into_iter().partition(|(name, _)| self.find(name).is_some());
        settings.extend(header.settings.iter().cloned());
        // The instance's own settings come before those of its group.
        let own = own.iter().map(|(name, value): &(Ident, Expr)| (name.clone(), value.to_token_stream()));
        let mut known: Vec<_> = own.chain(header.arguments.iter().cloned()).collect();

        let is_set = |param: &GenericParam| {
            known.iter().map(|(name, _)| name).any(|name| name == name_of(param))
                || self.derived.iter().any(|(name, _)| name == name_of(param))
        };
        let open_params: Vec<_> = self.all.iter().copied().filter(|param| !is_set(param)).collect();
        if open_params.len() != values.len() {
            let names: Vec<_> = open_params.iter().map(|param| name_of(param).to_string()).collect();
            let message = format!(
                "this list fills in {}, which are {} and not {}",
                names.join(", "),
                names.len(),
                values.len()
            );
            return Err(Error::new(open.spans[0], message));
        }
        for (param, value) in open_params.iter().zip(&values) {
            let value = replaced(value.to_token_stream(), &header.arguments);
            known.push((name_of(param).clone(), value));
        }
        for (name, expr) in self.derived {
            let value = Literal::u64_unsuffixed(eval::integer(expr, &known)?);
            known.push((name.clone(), value.to_token_stream()));
        }
        // In the order of the generic parameters.
        let find = |param: &&GenericParam| known.iter().find(|(name, _)| name == name_of(param)).cloned();
        let arguments: Vec<_> = self.all.iter().filter_map(find).collect();
        Ok(Instance { name: name.with(&arguments)?, arguments, settings, cfg: header.cfg.clone() })
    }
}

/// The name of an instance, perhaps with `{T}` in it.
struct Name {
    first: Ident,
    rest: Vec<Piece>,
}

enum Piece {
    Parameter(Ident),
    Text(Ident),
}

impl Name {
    fn parse(input: ParseStream<'_>) -> Result<Name> {
        let first = input.parse()?;
        let mut rest = Vec::new();
        while input.peek(token::Brace) {
            let parameter;
            braced!(parameter in input);
            rest.push(Piece::Parameter(parameter.parse()?));
            comma(&parameter)?;
            // Any identifier, since a lone `_` between two parameters is one too.
            if input.peek(Ident::peek_any) {
                rest.push(Piece::Text(Ident::parse_any(input)?));
            }
        }
        Ok(Name { first, rest })
    }

    fn with(&self, arguments: &[(Ident, TokenStream)]) -> Result<Ident> {
        let mut text = self.first.to_string();
        for piece in &self.rest {
            match piece {
                Piece::Text(ident) => text += &ident.to_string(),
                Piece::Parameter(name) => {
                    let value = arguments.iter().find(|(known, _)| known == name);
                    let value = value.map(|(_, value)| value.to_string());
                    let fits = |value: &String| value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    text += &value.filter(fits).ok_or_else(|| {
                        let message = format!(
                            "`{{{name}}}` in a name must be a parameter that is one word or a number"
                        );
                        Error::new(name.span(), message)
                    })?;
                }
            }
        }
        super::name::check(&text, self.first.span())?;
        let mut name = syn::parse_str::<Ident>(&text).map_err(|_| {
            Error::new(
                self.first.span(),
                format!("`{text}` cannot be the name of an instance; choose another"),
            )
        })?;
        name.set_span(self.first.span());
        Ok(name)
    }
}
