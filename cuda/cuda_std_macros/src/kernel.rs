//! `#[kernel]`.

mod device;
mod host;
mod name;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    Error, Expr, ExprLit, FnArg, GenericParam, Ident, ItemFn, Lit, Meta, Pat, Result, ReturnType, Token, Type,
};

/// A parameter. How it crosses the launch is decided by its type, when that is known: `cuda_std::param`.
struct Param {
    name: Ident,
    ty: Type,
}

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments = arguments(attribute)?;
    let function: ItemFn = syn::parse2(item)?;
    check_signature(&function)?;
    let params = function.sig.inputs.iter().enumerate().map(param).collect::<Result<Vec<_>>>()?;
    let device = device::entry(&function, &params, arguments);
    let host = host::launch(&function, &params, arguments);
    Ok(quote! {
        #device
        #[cfg(not(target_arch = "nvptx64"))]
        #function
        #host
    })
}

/// What the attribute says of the kernel; 0 where it says nothing.
#[derive(Clone, Copy, Default)]
struct Arguments {
    min_arch: u32,
    max_threads: u32,
    min_blocks: u32,
}

/// The numbers among the attribute's arguments; the other arguments are ignored.
fn arguments(arguments: TokenStream) -> Result<Arguments> {
    let mut found = Arguments::default();
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    // What does not read as a list of attributes is somebody else's, too.
    let Ok(arguments) = parser.parse2(arguments) else { return Ok(found) };
    for argument in &arguments {
        let Meta::NameValue(named) = argument else { continue };
        let (slot, message) = if named.path.is_ident("min_arch") {
            (&mut found.min_arch, "min_arch is a compute capability as one number: `min_arch = 90`")
        } else if named.path.is_ident("max_threads") {
            (&mut found.max_threads, "max_threads is the most threads of a block: `max_threads = 256`")
        } else if named.path.is_ident("min_blocks") {
            (
                &mut found.min_blocks,
                "min_blocks is the number of blocks that fit a multiprocessor: `min_blocks = 4`",
            )
        } else {
            continue;
        };
        // What a macro by example fills in comes in a group that nobody wrote.
        let mut value = &named.value;
        while let Expr::Group(group) = value {
            value = &group.expr;
        }
        let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = value else {
            return Err(Error::new(named.value.span(), message));
        };
        *slot = number.base10_parse().map_err(|_| Error::new(number.span(), message))?;
    }
    if found.min_blocks > 0 && found.max_threads == 0 {
        return Err(Error::new(
            arguments.span(),
            "min_blocks needs max_threads: `max_threads = 256, min_blocks = 4`",
        ));
    }
    Ok(found)
}

const GENERIC: &str =
    "a kernel cannot be generic: it is an entry point with one name; call a generic function from it";

fn check_signature(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    if sig.unsafety.is_none() {
        let message = "a kernel must be an unsafe fn: whoever launches it answers for grid and pointers";
        return Err(Error::new(sig.fn_token.span(), message));
    }
    if let Some(asyncness) = sig.asyncness {
        return Err(Error::new(asyncness.span(), "a kernel cannot be async"));
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new(abi.span(), "a kernel has an ABI of its own; remove the extern"));
    }
    if let ReturnType::Type(_, ty) = &sig.output {
        let is_unit = matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty());
        if !is_unit {
            let message = "a kernel returns nothing; write its results through a `*mut T` parameter";
            return Err(Error::new(ty.span(), message));
        }
    }
    for generic in &sig.generics.params {
        if !matches!(generic, GenericParam::Lifetime(_)) {
            return Err(Error::new(generic.span(), GENERIC));
        }
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new(variadic.span(), "a kernel cannot be variadic"));
    }
    Ok(())
}

fn param((position, input): (usize, &FnArg)) -> Result<Param> {
    let typed = match input {
        FnArg::Receiver(receiver) => {
            return Err(Error::new(receiver.span(), "a kernel is a free-standing function without self"));
        }
        FnArg::Typed(typed) => typed,
    };
    let name = match &*typed.pat {
        Pat::Ident(ident) if ident.subpat.is_none() => ident.ident.clone(),
        _ => format_ident!("argument_{position}"),
    };
    check_type(&typed.ty)?;
    Ok(Param { name, ty: (*typed.ty).clone() })
}

/// Refuses what the source itself shows to be no parameter of a kernel; after an alias or in a macro the type does.
fn check_type(ty: &Type) -> Result<()> {
    match ty {
        Type::Group(group) => check_type(&group.elem),
        Type::Paren(paren) => check_type(&paren.elem),
        Type::Reference(reference) if reference.mutability.is_some() => {
            let message = "a kernel cannot take &mut, since every thread would hold it at once; use *mut T";
            Err(Error::new(reference.span(), message))
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => {
                Err(Error::new(path.span(), "a kernel cannot take &str; use &[u8]"))
            }
            _ => Ok(()),
        },
        Type::ImplTrait(generic) => Err(Error::new(generic.span(), GENERIC)),
        _ => Ok(()),
    }
}
