//! The entry on the GPU.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Ident, ItemFn, Type};

use super::arguments::Bounds;
use super::host::{inferred_lifetimes, is_primitive};
use super::param::Param;
use super::stamp::{DeviceArgument, DeviceCall};

/// The target feature that `cuda_builder` sets when it builds the kernels for one architecture only. It sets no other
/// PTX version, and a made-up name would make rustc warn.
const ONLY_SPECIFIC: &str = "ptx87";

/// Creates the entry with the flattened parameters and the kernel's function inside, or a call of another function. On
/// architectures that are too old for the kernel, and for a CPU-only kernel, there is no entry, only the function.
pub(super) fn entry(
    function: &ItemFn,
    call: Option<&DeviceCall>,
    params: &[Param],
    bounds: Bounds,
) -> TokenStream {
    let attrs = &function.attrs;
    let vis = &function.vis;
    let name = &function.sig.ident;
    let lifetimes = &function.sig.generics;
    let where_clause = &function.sig.generics.where_clause;
    let block = &function.block;
    let inputs = &function.sig.inputs;

    let function_alone = |but: TokenStream, reason: &str| {
        quote! {
            #[cfg(all(target_arch = "nvptx64" #but))]
            #(#attrs)*
            #[inline(always)]
            #[allow(dead_code, reason = #reason)]
            #vis unsafe fn #name #lifetimes (#inputs) #where_clause #block
        }
    };
    if bounds.cpu_only {
        return function_alone(quote!(), "the kernel is for the CPU executor alone");
    }

    let mut flat = Vec::new();
    let mut joined = Vec::new();
    let mut layouts = Vec::new();
    for (i, Param { name, ty }) in params.iter().enumerate() {
        let (first, second) = (format_ident!("{name}_first"), format_ident!("{name}_second"));
        let inferred = inferred_lifetimes(ty, &function.sig.generics);
        let param = quote_spanned! {ty.span()=>
            <#ty as ::cuda_std::param::Param<{ ::cuda_std::__kind!(#inferred) }>>
        };
        layouts.extend(may_be_struct(ty).then(|| layout((i, &first), &inferred, function)));
        flat.push(quote!(#first: #param::First, #second: #param::Second));
        joined.push(quote!(#param::join(#first, #second)));
    }
    let body = match call {
        None => quote! {
            #[inline(always)]
            unsafe fn #name #lifetimes (#inputs) #where_clause #block
            // SAFETY: the launch passes valid parameters, flattened in the same way.
            unsafe { #name(#(#joined),*) }
        },
        Some(DeviceCall { before, callee, arguments }) => {
            let mut joined = joined.iter();
            let arguments = arguments.iter().map(|argument| match argument {
                DeviceArgument::Next(conversion) => {
                    let next = joined.next();
                    quote!(#next #conversion)
                }
                DeviceArgument::Other(argument) => argument.clone(),
            });
            quote! {
                #before
                // SAFETY: as above; the shared memory belongs to the block.
                unsafe { #callee(#(#arguments),*) }
            }
        }
    };
    // The builder turns the bounds in the section's name into attributes, for which Rust has no syntax.
    let section = (bounds.max_threads > 0).then(|| {
        let section = format!(".ferrowarp.bounds.{}.{}", bounds.max_threads, bounds.min_blocks);
        quote!(#[unsafe(link_section = #section)])
    });
    let feature = match bounds {
        Bounds { min_arch: 0, .. } => None,
        Bounds { min_arch, arch_specific: false, .. } => Some(format!("sm_{min_arch}")),
        Bounds { min_arch, arch_specific: true, .. } => Some(format!("sm_{min_arch}a")),
    };
    // A build of the kernels of one architecture has no entries of others.
    let (has_kernel, lacks_kernel) = match (&feature, bounds.arch_specific) {
        (None, _) => (quote!(not(target_feature = #ONLY_SPECIFIC)), quote!(target_feature = #ONLY_SPECIFIC)),
        (Some(feature), true) => (quote!(target_feature = #feature), quote!(not(target_feature = #feature))),
        (Some(feature), false) => (
            quote!(target_feature = #feature, not(target_feature = #ONLY_SPECIFIC)),
            quote!(any(not(target_feature = #feature), target_feature = #ONLY_SPECIFIC)),
        ),
    };
    let remains = function_alone(quote!(, #lacks_kernel), "this build lacks the kernel");
    // The builder reads the kernel's family from it, and removes it from the module. Kernels that some architectures
    // lack are a separate family, so that the others are compiled in the same parts for all architectures.
    let since = match bounds {
        Bounds { min_arch: 0, .. } => String::new(),
        Bounds { min_arch, arch_specific: false, .. } => format!("::since_{min_arch}"),
        Bounds { min_arch, arch_specific: true, .. } => format!("::only_{min_arch}a"),
    };
    let wanted = bounds.arch_specific.then(|| wanted_arch(name, bounds.min_arch));
    let family = format_ident!("__ferrowarp_family_of_{name}");
    quote! {
        #remains
        #wanted
        #[cfg(all(target_arch = "nvptx64", #has_kernel))]
        const _: () = {
            const PATH: &::core::primitive::str = ::core::concat!(::core::module_path!(), #since);
            #[used]
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "its name has the kernel's name in it")]
            static #family: [::core::primitive::u8; PATH.len()] = *PATH.as_bytes().first_chunk().unwrap();
            #(#layouts)*
        };
        #[cfg(all(target_arch = "nvptx64", #has_kernel))]
        ::cuda_std::__kernel_entry! {
            {
                #(#attrs)*
                #[allow(
                    improper_ctypes_definitions,
                    clippy::too_many_arguments,
                    reason = "the calling convention of kernels"
                )]
                #[unsafe(no_mangle)]
                #section
                #vis
            }
            fn #name {#lifetimes} (#(#flat),*) {#where_clause} {
                #body
            }
        }
    }
}

/// Returns whether the type, as written, can be a struct.
fn may_be_struct(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => may_be_struct(&group.elem),
        Type::Paren(paren) => may_be_struct(&paren.elem),
        Type::Ptr(_) | Type::Reference(_) => false,
        ty => !is_primitive(ty),
    }
}

/// Creates a static with the size and alignment of a parameter for the builder, if rustc cannot pass it by value:
/// structs aligned to more than 16 bytes. The entry takes a pointer in its place.
fn layout((position, first): (usize, &Ident), ty: &TokenStream, kernel: &ItemFn) -> TokenStream {
    let name = first.to_string();
    let len = 16 + name.len();
    let symbol = format_ident!("__ferrowarp_layout_{position}_of_{}", kernel.sig.ident);
    quote! {
        #[used]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "its name has the kernel's name in it")]
        static #symbol: [::core::primitive::u8; #len] = ::cuda_std::param::layout_of::<#ty, #len>(#name);
    }
}

/// Creates a static that requests from the builder a module for the kernel's only architecture, in addition to the
/// module for all GPUs of that compute capability and later ones.
fn wanted_arch(kernel: &Ident, capability: u32) -> TokenStream {
    let (base, specific) = (format!("sm_{capability}"), format!("sm_{capability}a"));
    let wanted = format_ident!("__ferrowarp_wants_{capability}a_for_{kernel}");
    quote! {
        #[cfg(all(target_arch = "nvptx64", target_feature = #base, not(target_feature = #specific)))]
        const _: () = {
            #[used]
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "its name has the kernel's name in it")]
            static #wanted: ::core::primitive::u8 = 0;
        };
    }
}
