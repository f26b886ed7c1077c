//! `#[address_space(..)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Ident, ItemStatic, Result};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let space: Ident = syn::parse2(arguments)?;
    let item: ItemStatic = syn::parse2(item)?;
    let name = &item.ident;
    match space.to_string().as_str() {
        "global" => Ok(quote!(#item)),
        "constant" => Ok(quote! {
            #[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".ferrowarp.constant"))]
            #item
        }),
        "shared" if matches!(item.mutability, syn::StaticMutability::None) => Err(Error::new(
            item.ident.span(),
            "a shared static must be `static mut`: nothing initialises it, so it is of use only when written",
        )),
        "shared" => {
            let ty = &item.ty;
            let text = name.to_string();
            Ok(quote! {
                #[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".ferrowarp.shared"))]
                #item
                #[cfg(not(target_arch = "nvptx64"))]
                const _: () = {
                    #[::cuda_std::simt::__linkme::distributed_slice(::cuda_std::simt::SHARED_STATICS)]
                    #[linkme(crate = ::cuda_std::simt::__linkme)]
                    static ENTRY: ::cuda_std::simt::SharedStatic = ::cuda_std::simt::SharedStatic {
                        name: #text,
                        address: (&raw const #name).cast::<u8>(),
                        bytes: ::core::mem::size_of::<#ty>(),
                    };
                };
            })
        }
        "local" => Err(Error::new(
            space.span(),
            "a static cannot live in local memory, which belongs to one thread: PTX has no `.local` variables outside of \
             functions; use a local variable",
        )),
        other => Err(Error::new(
            space.span(),
            format!("unknown address space `{other}`; expected shared, constant or global"),
        )),
    }
}
