//! The type with `META` and `launch` on the host.

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{GenericParam, Generics, ItemFn, Type};

use super::arguments::Bounds;
use super::name;
use super::param::Param;

pub(super) fn launch(function: &ItemFn, params: &[Param], bounds: Bounds) -> TokenStream {
    let Bounds { min_arch, arch_specific, max_threads, min_blocks, cooperative, cpu_only } = bounds;
    let vis = &function.vis;
    let kernel = &function.sig.ident;
    let kernel_text = kernel.to_string();
    let launch_type = name::of_launch_type(kernel);
    let signature = params.iter().map(|Param { name, ty }| format!("{name}: {}", as_written(ty)));
    let signature = signature.collect::<Vec<_>>().join(", ");
    let doc_type = format!("Typed launches of the kernel [`{kernel_text}`](fn@{kernel_text}).");
    let doc_launch = format!(
        "Launches [`{kernel_text}`](fn@{kernel_text})`({signature})` on a device.\n\n# Errors\nThe launch does not fit \
         the device, an argument lives elsewhere, or the kernel failed.\n\n# Safety\nThe kernel's own contract holds \
         for this grid and these arguments, and the buffers stay alive and unchanged until the launch has ended."
    );
    let Launch { generics, inputs, bound, pushes, takes, kinds } =
        Launch::of(params, &function.sig.generics, &launch_type);
    let count = params.len();
    let line = quote_spanned!(kernel.span()=> ::core::line!());
    let listed = cfg!(feature = "kernel-list").then(|| {
        quote! {
            #[cfg(not(target_arch = "nvptx64"))]
            const _: () = {
                #[::cuda_std::simt::__linkme::distributed_slice(::cuda_std::launch::KERNELS)]
                #[linkme(crate = ::cuda_std::simt::__linkme)]
                static ENTRY: &::cuda_std::launch::KernelMeta = #launch_type::META;
            };
        }
    });
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc_type]
        #[allow(
            dead_code, non_camel_case_types,
            reason = "a kernel's launch type has the kernel's name, and not everybody launches by it"
        )]
        #vis enum #launch_type {}

        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(
            dead_code, clippy::too_many_arguments, clippy::type_complexity,
            reason = "a launch takes the arguments that the kernel takes"
        )]
        impl #launch_type {
            /// The kernel's name, source location and launch bounds.
            pub const META: &'static ::cuda_std::launch::KernelMeta = &::cuda_std::launch::KernelMeta {
                name: #kernel_text,
                file: ::core::file!(),
                line: #line,
                min_arch: #min_arch,
                arch_specific: #arch_specific,
                max_threads: #max_threads,
                min_blocks: #min_blocks,
                cooperative: #cooperative,
                cpu_only: #cpu_only,
                call: Self::__call,
            };

            /// How the launch passes each parameter.
            const __KINDS: [u8; #count] = [#(#kinds),*];

            unsafe fn __call(args: *const *mut ::core::ffi::c_void) {
                // SAFETY: the caller passes one valid pointer per flattened parameter, as `KernelMeta::call` requires.
                unsafe {
                    #[allow(unused_mut, reason = "a kernel may have no parameters")]
                    let mut __args = ::cuda_std::launch::Slots::new(args);
                    #kernel(#(#takes),*)
                }
            }

            #[doc = #doc_launch]
            pub unsafe fn launch<#(#generics),*>(
                __on: &(impl ::cuda_std::launch::Launcher + ?Sized),
                __config: ::cuda_std::launch::LaunchConfig,
                #(#inputs),*
            ) -> ::core::result::Result<(), ::cuda_std::launch::LaunchError>
            #bound
            {
                #[allow(unused_mut, reason = "a kernel may have no parameters")]
                let mut __list = ::cuda_std::launch::ArgList::<{ 2 * #count }>::default();
                #(#pushes)*
                // SAFETY: one pointer per flattened parameter, each to a local of that parameter's type; the caller
                // guarantees the kernel's contract.
                unsafe {
                    ::cuda_std::launch::Launcher::submit(__on, &__list.call(Self::META, __config))
                }
            }
        }

        #listed
    }
}

/// The parts of `launch`, with one piece for each parameter.
#[derive(Default)]
struct Launch {
    /// The types of parameters, which `bound` determines. They cannot be in the signature itself: there, lifetimes that
    /// the kernel omits, perhaps in an alias, would be an error.
    generics: Vec<Ident>,
    inputs: Vec<TokenStream>,
    bound: TokenStream,
    pushes: Vec<TokenStream>,
    takes: Vec<TokenStream>,
    kinds: Vec<TokenStream>,
}

impl Launch {
    fn of(params: &[Param], generics: &Generics, launch_type: &Ident) -> Launch {
        let mut launch = Launch::default();
        let mut determined = Vec::new();
        for (i, Param { name, ty }) in params.iter().enumerate() {
            let text = name.to_string();
            let inferred = inferred_lifetimes(ty, generics);
            let kind = quote!({ #launch_type::__KINDS[#i] });
            let (determined_type, input) = if is_primitive(ty) {
                // Unchanged, so that the compiler knows the expected type of an argument.
                (ty.to_token_stream(), quote!(mut #name: #ty))
            } else {
                let generic = format_ident!("__P{i}");
                launch.generics.push(generic.clone());
                (generic.to_token_stream(), quote!(mut #name: impl ::cuda_std::launch::Arg<#generic, #kind>))
            };
            let flat = format_ident!("__flat_{i}");
            launch.pushes.push(quote! {
                let mut #flat = ::cuda_std::launch::Arg::<#determined_type, #kind>::flatten(
                    &mut #name, #text, &mut __list.buffers,
                );
                __list.push(&mut #flat);
            });
            determined.push(determined_type);
            launch.inputs.push(input);
            launch.takes.push(quote_spanned!(ty.span()=> __args.take::<#inferred, #kind>()));
            launch.kinds.push(quote!(::cuda_std::__kind!(#inferred)));
        }
        if !launch.generics.is_empty() {
            let lifetimes = generics.lifetimes().map(|lifetime| &lifetime.lifetime);
            let types = params.iter().map(|param| &param.ty);
            launch.bound = quote!(where (for<#(#lifetimes),*> fn(#(#types),*)): FnOnce(#(#determined),*));
        }
        launch
    }
}

/// Returns whether it is a number, a `bool` or a `char`, written as such.
pub(super) fn is_primitive(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 16] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64",
        "u128", "usize",
    ];
    match ty {
        // A fragment from a `macro_rules!` macro comes in an invisible group.
        Type::Group(group) => is_primitive(&group.elem),
        Type::Path(path) => PRIMITIVES.iter().any(|name| path.path.is_ident(name)),
        _ => false,
    }
}

/// Returns the type with `'_` for each lifetime of the kernel's generics, for a position where lifetimes are inferred.
pub(super) fn inferred_lifetimes(ty: &Type, generics: &Generics) -> TokenStream {
    let names: Vec<&Ident> = generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Lifetime(lifetime) => Some(&lifetime.lifetime.ident),
            _ => None,
        })
        .collect();
    without_names(ty.to_token_stream(), &names)
}

fn without_names(tokens: TokenStream, names: &[&Ident]) -> TokenStream {
    let mut is_lifetime = false;
    let replaced = tokens.into_iter().map(|token| {
        let was_quote = core::mem::take(&mut is_lifetime);
        match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_names(group.stream(), names));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            TokenTree::Punct(punct) => {
                is_lifetime = punct.as_char() == '\'' && punct.spacing() == Spacing::Joint;
                TokenTree::Punct(punct)
            }
            TokenTree::Ident(ident) if was_quote && names.contains(&&ident) => {
                TokenTree::Ident(Ident::new("_", ident.span()))
            }
            other => other,
        }
    });
    replaced.collect()
}

/// Returns the type's tokens with the usual spaces.
fn as_written(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    [
        ("& ", "&"),
        ("* ", "*"),
        (" :: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ;", ";"),
        (" ,", ","),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
}
