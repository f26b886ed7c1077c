//! Values that the attribute must compute itself, since macros cannot use rustc's constant evaluation.

use proc_macro2::{Ident, TokenStream};
use syn::{BinOp, Error, Expr, Lit, Result};

/// The compute capabilities that `cuda_builder` knows, as in its `arch.rs`.
pub(super) const CAPABILITIES: [u32; 21] =
    [50, 52, 53, 60, 61, 62, 70, 72, 73, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

const UNKNOWN: &str = "this number is needed while the macro runs: write it with integers, the kernel's const \
                       parameters, `+ - * / %`, `min(a, b)` and `max(a, b)`; the value of a `const` is not known here: write the \
                       number, and `const _: () = assert!(THREADS == 256)` next to the constant";

/// Returns the value of `true` or `false`, if it is either.
pub(super) fn boolean(expr: &Expr) -> Option<bool> {
    match expr {
        // A fragment from a `macro_rules!` macro comes in an invisible group.
        Expr::Group(group) => boolean(&group.expr),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(value) => Some(value.value),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the compute capability of an architecture-specific target: 90 for `"90a"`.
pub(super) fn specific_arch(expr: &Expr) -> Result<u32> {
    let wrong = || {
        let message = "arch is an architecture-specific target, a compute capability and the letter a: `arch = \"90a\"`; for \
                       this one and all later architectures write `min_arch = 90`";
        Error::new_spanned(expr, message)
    };
    match expr {
        // As above.
        Expr::Group(group) => specific_arch(&group.expr),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(name) => {
                let name = name.value();
                let digits = name.strip_suffix('a').filter(|digits| !digits.starts_with(['0', '+']));
                let number = digits.and_then(|digits| digits.parse().ok());
                number.filter(|it| *it >= 90 && CAPABILITIES.contains(it)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Returns the value of an expression of integers and `names`.
pub(super) fn integer(expr: &Expr, names: &[(Ident, TokenStream)]) -> Result<u64> {
    let unknown = || Error::new_spanned(expr, UNKNOWN);
    match expr {
        // As above.
        Expr::Group(group) => integer(&group.expr, names),
        Expr::Paren(paren) => integer(&paren.expr, names),
        Expr::Cast(cast) => integer(&cast.expr, names),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse(),
            _ => Err(unknown()),
        },
        Expr::Path(path) => {
            let known = names.iter().find(|(name, _)| path.path.is_ident(name));
            let (_, value) = known.ok_or_else(unknown)?;
            let value: Expr = syn::parse2(value.clone()).map_err(|_| unknown())?;
            // A value contains no other names: those are filled in already.
            integer(&value, &[])
        }
        Expr::Binary(binary) => {
            let (a, b) = (integer(&binary.left, names)?, integer(&binary.right, names)?);
            let result = match binary.op {
                BinOp::Add(_) => a.checked_add(b),
                BinOp::Sub(_) => a.checked_sub(b),
                BinOp::Mul(_) => a.checked_mul(b),
                BinOp::Div(_) => a.checked_div(b),
                BinOp::Rem(_) => a.checked_rem(b),
                _ => return Err(unknown()),
            };
            result.ok_or_else(|| {
                Error::new_spanned(expr, format!("this cannot be evaluated: its operands are {a} and {b}"))
            })
        }
        Expr::Call(call) if call.args.len() == 2 => {
            let function = match &*call.func {
                Expr::Path(path) if path.path.is_ident("min") => u64::min,
                Expr::Path(path) if path.path.is_ident("max") => u64::max,
                _ => return Err(unknown()),
            };
            Ok(function(integer(&call.args[0], names)?, integer(&call.args[1], names)?))
        }
        _ => Err(unknown()),
    }
}
