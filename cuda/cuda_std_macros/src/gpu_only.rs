//! `#[gpu_only]` and `#[externally_visible]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Error, ItemFn, Result};

pub(crate) fn expand(item: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item)?;
    let mut host = function.clone();
    host.sig.abi = None;
    let message = format!("{}() can only be used on the GPU, not on the CPU executor", host.sig.ident);
    host.block = syn::parse_quote!({ ::core::panic!(#message) });
    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #function
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(unused_variables, reason = "the body is the GPU's alone")]
        #host
    })
}

pub(crate) fn externally_visible(item: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item)?;
    let is_no_mangle = function.attrs.iter().any(|attr| {
        attr.path().is_ident("no_mangle")
            || (attr.path().is_ident("unsafe")
                && attr.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("no_mangle")))
    });
    if !is_no_mangle {
        let message = "an externally visible function needs #[unsafe(no_mangle)], to be found by its name";
        return Err(Error::new(function.sig.ident.span(), message));
    }
    let name = &function.sig.ident;
    crate::kernel::name::check(&name.unraw().to_string(), name.span())?;
    let inputs = function.sig.inputs.iter().map(|input| match input {
        syn::FnArg::Typed(typed) => Ok(&typed.ty),
        syn::FnArg::Receiver(receiver) => {
            Err(Error::new(receiver.span(), "expected a free-standing function"))
        }
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let (safety, abi, output) = (&function.sig.safety, &function.sig.abi, &function.sig.output);
    // The builder finds the function by the section, and keeps its name.
    Ok(quote! {
        #[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".ferrowarp.visible"))]
        #function
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[used]
            static KEEP: #safety #abi fn(#(#inputs),*) #output = #name;
        };
    })
}
