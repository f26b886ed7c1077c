//! A kernel's parameters.

use quote::format_ident;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, Ident, Pat, Result, Type};

/// A parameter. Its type decides how a launch passes it, once it is known: `cuda_std::param`.
pub(super) struct Param {
    pub name: Ident,
    pub ty: Type,
}

pub(super) const GENERIC: &str = "a kernel cannot be generic without a list of its entry points: `#[kernel(instances(name = <arguments>;))]`";

/// Returns the parameter at this position.
pub(super) fn param((position, input): (usize, &FnArg)) -> Result<Param> {
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

/// Refuses types that, as written, cannot be a kernel's parameter. Behind an alias or in a macro, the type itself does this.
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
