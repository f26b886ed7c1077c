//! `#[kernel]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    Error, Expr, ExprLit, FnArg, GenericParam, Ident, ItemFn, Lit, Meta, Pat, Result, ReturnType, Token, Type,
};

/// How a parameter crosses the launch.
enum Passing {
    /// `&[T]`: pointer and length.
    Slice(Box<Type>),
    /// `&T` or `*const T`.
    Const(Box<Type>),
    /// `*mut T`.
    Mut(Box<Type>),
    /// Anything else, by value.
    Value,
}

struct Param {
    name: Ident,
    ty: Type,
    passing: Passing,
}

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments = arguments(attribute)?;
    let function: ItemFn = syn::parse2(item)?;
    check_signature(&function)?;
    let params = function.sig.inputs.iter().enumerate().map(param).collect::<Result<Vec<_>>>()?;
    let device = device_entry(&function, &params, arguments);
    let host = host_launch(&function, &params, arguments);
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
            let message = "a kernel cannot be generic: it is an entry point with one name; call a generic function from it";
            return Err(Error::new(generic.span(), message));
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
    let passing = match &*typed.ty {
        Type::Reference(reference) if reference.mutability.is_some() => {
            let message = "a kernel cannot take &mut, since every thread would hold it at once; use *mut T";
            return Err(Error::new(reference.span(), message));
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Slice(slice) => Passing::Slice(slice.elem.clone()),
            Type::Path(path) if path.path.is_ident("str") => {
                return Err(Error::new(path.span(), "a kernel cannot take &str; use &[u8]"));
            }
            _ => Passing::Const(reference.elem.clone()),
        },
        Type::Ptr(pointer) if pointer.mutability.is_some() => Passing::Mut(pointer.elem.clone()),
        Type::Ptr(pointer) => Passing::Const(pointer.elem.clone()),
        _ => Passing::Value,
    };
    Ok(Param { name, ty: (*typed.ty).clone(), passing })
}

/// The entry on the GPU: the flattened parameters, and the kernel's function inside. On architectures that are too old
/// for the kernel only the function remains, which nobody calls.
fn device_entry(function: &ItemFn, params: &[Param], arguments: Arguments) -> TokenStream {
    let attrs = &function.attrs;
    let vis = &function.vis;
    let name = &function.sig.ident;
    let lifetimes = &function.sig.generics;
    let where_clause = &function.sig.generics.where_clause;
    let block = &function.block;
    let inputs = &function.sig.inputs;

    let mut flat = Vec::new();
    let mut rebuilt = Vec::new();
    for Param { name, ty, passing } in params {
        if let Passing::Slice(elem) = passing {
            let (ptr, len) = (format_ident!("{name}_ptr"), format_ident!("{name}_len"));
            flat.push(quote!(#ptr: *const #elem, #len: usize));
            rebuilt.push(quote!(::core::slice::from_raw_parts(#ptr, #len)));
        } else {
            flat.push(quote!(#name: #ty));
            rebuilt.push(quote!(#name));
        }
    }
    // The builder finds the bounds in the section's name and makes them attributes, which Rust has no word for.
    let bounds = (arguments.max_threads > 0).then(|| {
        let section = format!(".ferrowarp.bounds.{}.{}", arguments.max_threads, arguments.min_blocks);
        quote!(#[unsafe(link_section = #section)])
    });
    let (has_kernel, remains) = match arguments.min_arch {
        0 => (quote!(), quote!()),
        arch => {
            let feature = format!("sm_{arch}");
            let remains = quote! {
                #[cfg(all(target_arch = "nvptx64", not(target_feature = #feature)))]
                #(#attrs)*
                #[inline(always)]
                #[allow(dead_code, reason = "this architecture is too old for the kernel")]
                #vis unsafe fn #name #lifetimes (#inputs) #where_clause #block
            };
            (quote!(, target_feature = #feature), remains)
        }
    };
    // The builder finds the kernel's family in it, and takes it out of the module.
    let family = format_ident!("__ferrowarp_family_of_{name}");
    quote! {
        #remains
        #[cfg(all(target_arch = "nvptx64" #has_kernel))]
        const _: () = {
            const PATH: &::core::primitive::str = ::core::module_path!();
            #[used]
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "its name has the kernel's name in it")]
            static #family: [::core::primitive::u8; PATH.len()] = *PATH.as_bytes().first_chunk().unwrap();
        };
        #[cfg(all(target_arch = "nvptx64" #has_kernel))]
        ::cuda_std::__kernel_entry! {
            {
                #(#attrs)*
                #[allow(
                    improper_ctypes_definitions,
                    clippy::too_many_arguments,
                    reason = "the calling convention of kernels"
                )]
                #[unsafe(no_mangle)]
                #bounds
                #vis
            }
            fn #name {#lifetimes} (#(#flat),*) {#where_clause} {
                #[inline(always)]
                unsafe fn #name #lifetimes (#inputs) #where_clause #block
                // SAFETY: the launch passes every slice as a valid pointer and length.
                unsafe { #name(#(#rebuilt),*) }
            }
        }
    }
}

/// The type of the kernel's name, with `META` and `launch`.
fn host_launch(function: &ItemFn, params: &[Param], arguments: Arguments) -> TokenStream {
    let Arguments { min_arch, max_threads, .. } = arguments;
    let vis = &function.vis;
    let name = &function.sig.ident;
    let name_text = name.to_string();
    let line = name.span();
    let doc_type = format!("Typed launches of the kernel [`{name_text}`](fn@{name_text}).");
    let doc_launch = format!(
        "Launches [`{name_text}`](fn@{name_text}) on a device.\n\n# Errors\nThe launch does not fit the device, an \
         argument lives elsewhere, or the kernel failed.\n\n# Safety\nThe kernel's own contract holds for this grid \
         and these arguments, and the buffers stay alive and unchanged until the launch has ended."
    );

    let mut inputs = Vec::new();
    let mut locals = Vec::new();
    let mut slots = Vec::new();
    let (mut residences, mut extents) = (Vec::new(), Vec::new());
    let mut reads = Vec::new();
    let mut index = 0usize;
    for Param { name, ty, passing } in params {
        let text = name.to_string();
        let at = quote!((*args.add(#index)));
        match passing {
            Passing::Slice(elem) => {
                let (ptr, len) = (format_ident!("{name}_ptr"), format_ident!("{name}_len"));
                let at_len = index + 1;
                inputs.push(quote!(#name: impl ::cuda_std::launch::SliceArg<#elem>));
                residences.push(quote!((#text, ::cuda_std::launch::SliceArg::<#elem>::residence(&#name))));
                extents.push(extent(index, false, quote!(::core::option::Option::Some(
                    ::cuda_std::launch::SliceArg::<#elem>::as_raw_slice(&#name).1 * ::core::mem::size_of::<#elem>(),
                ))));
                locals.push(quote! {
                    let (mut #ptr, mut #len) = ::cuda_std::launch::SliceArg::<#elem>::as_raw_slice(&#name);
                });
                slots.push(quote!((&raw mut #ptr).cast::<::core::ffi::c_void>()));
                slots.push(quote!((&raw mut #len).cast::<::core::ffi::c_void>()));
                reads.push(quote!(::core::slice::from_raw_parts(
                    *#at.cast::<*const #elem>(),
                    *(*args.add(#at_len)).cast::<usize>(),
                )));
                index += 1;
            }
            Passing::Const(elem) => {
                inputs.push(quote!(#name: impl ::cuda_std::launch::PtrArg<#elem>));
                residences.push(quote!((#text, ::cuda_std::launch::PtrArg::<#elem>::residence(&#name))));
                let bytes = quote!(::cuda_std::launch::PtrArg::<#elem>::byte_len(&#name));
                extents.push(extent(index, false, bytes));
                locals.push(quote!(let mut #name = ::cuda_std::launch::PtrArg::<#elem>::as_raw_ptr(&#name);));
                slots.push(quote!((&raw mut #name).cast::<::core::ffi::c_void>()));
                let pointer = quote!(*#at.cast::<*const #elem>());
                reads.push(if matches!(ty, Type::Reference(_)) { quote!(&*#pointer) } else { pointer });
            }
            Passing::Mut(elem) => {
                inputs.push(quote!(mut #name: impl ::cuda_std::launch::PtrMutArg<#elem>));
                residences.push(quote!((#text, ::cuda_std::launch::PtrMutArg::<#elem>::residence(&#name))));
                let bytes = quote!(::cuda_std::launch::PtrMutArg::<#elem>::byte_len(&#name));
                extents.push(extent(index, true, bytes));
                locals.push(
                    quote!(let mut #name = ::cuda_std::launch::PtrMutArg::<#elem>::as_raw_mut_ptr(&mut #name);),
                );
                slots.push(quote!((&raw mut #name).cast::<::core::ffi::c_void>()));
                reads.push(quote!(*#at.cast::<*mut #elem>()));
            }
            Passing::Value => {
                inputs.push(quote!(mut #name: #ty));
                locals.push(quote!(::cuda_std::launch::__assert_copy::<#ty>();));
                slots.push(quote!((&raw mut #name).cast::<::core::ffi::c_void>()));
                reads.push(quote!(*#at.cast::<#ty>()));
            }
        }
        index += 1;
    }
    let line = quote::quote_spanned!(line=> ::core::line!());
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc_type]
        #[allow(non_camel_case_types, reason = "a kernel's launch type has the kernel's name")]
        #vis enum #name {}

        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(clippy::too_many_arguments, reason = "a launch takes the arguments that the kernel takes")]
        impl #name {
            /// The kernel's name and place.
            pub const META: &'static ::cuda_std::launch::KernelMeta = &::cuda_std::launch::KernelMeta {
                name: #name_text,
                file: ::core::file!(),
                line: #line,
                min_arch: #min_arch,
                max_threads: #max_threads,
                call: Self::__call,
            };

            unsafe fn __call(args: *const *mut ::core::ffi::c_void) {
                // SAFETY: the caller passes one valid pointer per flattened parameter, as `KernelMeta::call` asks.
                unsafe { let _ = args; #name(#(#reads),*) }
            }

            #[doc = #doc_launch]
            pub unsafe fn launch(
                __on: &(impl ::cuda_std::launch::Launcher + ?Sized),
                __config: ::cuda_std::launch::LaunchConfig,
                #(#inputs),*
            ) -> ::core::result::Result<(), ::cuda_std::launch::LaunchError> {
                let __residences = [#(#residences),*];
                let __extents = [#(#extents),*];
                #(#locals)*
                let __args = [#(#slots),*];
                // SAFETY: one pointer per flattened parameter, each to a local of that parameter's type; the
                // caller answers for the kernel's contract.
                unsafe {
                    ::cuda_std::launch::Launcher::submit(
                        __on,
                        &::cuda_std::launch::KernelCall {
                            meta: Self::META,
                            config: __config,
                            args: &__args,
                            residences: &__residences,
                            extents: &__extents,
                        },
                    )
                }
            }
        }
    }
}

/// The extent of the buffer whose pointer is parameter `index`, if the expression `bytes` knows it.
fn extent(index: usize, is_writable: bool, bytes: TokenStream) -> TokenStream {
    quote!(::core::option::Option::map(#bytes, |bytes| ::cuda_std::launch::Extent {
        parameter: #index,
        bytes,
        is_writable: #is_writable,
    }))
}
