//! `#[derive(KernelArgs)]`: a struct with the same fields, with which host code launches.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Field, Fields, GenericParam, Generics,
    PointerMutability, Result, Type, TypePtr, parenthesized, parse_quote, token,
};

use crate::tokens::mentions;

pub(crate) fn expand(item: TokenStream) -> Result<TokenStream> {
    let DeriveInput { attrs, vis, ident, generics, data } = syn::parse2(item)?;
    let Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) = data else {
        return Err(Error::new(ident.span(), "kernel arguments are a struct with named fields"));
    };
    if !is_repr_c(&attrs)? {
        let message = "kernel arguments must be `#[repr(C)]`, so that host and device lay them out alike";
        return Err(Error::new(ident.span(), message));
    }
    let host = format_ident!("{ident}Host");
    let text = ident.to_string();
    let launch = format_ident!(
        "{}Launch",
        text.strip_suffix("Args").filter(|start| !start.is_empty()).unwrap_or(&text)
    );
    let Host { declared, values, checks, own, whole, raw } =
        Host::of(fields.named.iter().collect(), &generics)?;
    let (own_generics, own_arguments, _) = own.split_for_impl();
    let (whole_generics, _, conditions) = whole.split_for_impl();
    let arguments = generics.split_for_impl().1;
    let doc = format!(
        "What host code passes for a kernel's [`{ident}`](struct@{ident}): the same fields, with a buffer for each \
         pointer. A launch checks where they live."
    );
    let launch_doc =
        format!("[`{host}`] with a [`RawBuffer`](::cuda_std::launch::RawBuffer) for each pointer.");
    let launch_params = generics.params.iter().map(|param| match param {
        GenericParam::Const(constant) => {
            let (name, ty) = (&constant.ident, &constant.ty);
            quote!(const #name: #ty)
        }
        other => as_argument(other),
    });
    Ok(quote! {
        #(#checks)*

        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc]
        #[allow(
            dead_code, missing_debug_implementations,
            reason = "not everybody launches the kernel, and a buffer may have no Debug"
        )]
        #vis struct #host #own_generics {
            #(#declared,)*
        }

        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #launch_doc]
        #[allow(dead_code, reason = "not everybody launches the kernel with such buffers")]
        #vis type #launch<#(#launch_params),*> = #host<#(#raw),*>;

        #[cfg(not(target_arch = "nvptx64"))]
        impl #whole_generics ::cuda_std::launch::Arg<#ident #arguments, { ::cuda_std::param::VALUE }>
            for #host #own_arguments #conditions
        {
            type First = #ident #arguments;
            type Second = ();

            fn flatten(
                &mut self,
                _: &'static ::core::primitive::str,
                __buffers: &mut ::cuda_std::launch::Buffers,
            ) -> (Self::First, ()) {
                (#ident { #(#values,)* }, ())
            }
        }
    })
}

/// Returns whether a `repr` is `C`.
fn is_repr_c(attrs: &[Attribute]) -> Result<bool> {
    let mut is_c = false;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            is_c |= meta.path.is_ident("C");
            if meta.input.peek(token::Paren) {
                let number;
                parenthesized!(number in meta.input);
                number.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(is_c)
}

/// The parts of the host's struct.
struct Host {
    /// Its fields.
    declared: Vec<TokenStream>,
    /// The kernel's fields, built from them.
    values: Vec<TokenStream>,
    /// Checks that no field passed by value is an alias of a pointer.
    checks: Vec<TokenStream>,
    /// Its generic parameters: those of the kernel's struct that its fields name, and a type for each buffer.
    own: Generics,
    /// All generic parameters of both structs, and the bounds of each buffer.
    whole: Generics,
    /// Arguments for `own`, with a `RawBuffer` for each buffer.
    raw: Vec<TokenStream>,
}

impl Host {
    fn of(fields: Vec<&Field>, generics: &Generics) -> Result<Host> {
        let (mut declared, mut values, mut checks, mut by_value) = (vec![], vec![], vec![], quote!());
        let (mut own, mut whole) = (generics.clone(), generics.clone());
        own.where_clause = None;
        let (mut buffers, mut raw_buffers) = (Vec::<GenericParam>::new(), vec![]);
        for Field { attrs, vis, ident, ty, .. } in fields {
            let docs = attrs.iter().filter(|attr| attr.path().is_ident("doc"));
            let declared_type = match written(ty) {
                Type::Reference(reference) => {
                    let message = "a field of kernel arguments cannot be a reference; write `*const T`, `*const [T]`, \
                                   `*mut T` or `*mut [T]`";
                    return Err(Error::new(reference.span(), message));
                }
                Type::Ptr(pointer) => {
                    let buffer = format_ident!("__A{}", buffers.len());
                    let (bound, element, value) = of_pointer(pointer, ident.as_ref());
                    raw_buffers.push(quote!(::cuda_std::launch::RawBuffer<#element>));
                    buffers.push(parse_quote!(#buffer));
                    whole.params.push(parse_quote!(#buffer: #bound));
                    values.push(quote!(#ident: #value));
                    buffer.into_token_stream()
                }
                _ => {
                    checks.extend(check(ty, ident.as_ref(), generics));
                    by_value.extend(quote!(#ty));
                    values.push(quote!(#ident: self.#ident));
                    ty.to_token_stream()
                }
            };
            declared.push(quote!(#(#docs)* #vis #ident: #declared_type));
        }
        let is_named = |param: &GenericParam| mentions(by_value.clone(), name(param));
        let by_name = generics.params.iter().filter(|param| is_named(param));
        let raw = by_name.clone().map(as_argument).chain(raw_buffers).collect();
        own.params = by_name.cloned().chain(buffers).collect();
        Ok(Host { declared, values, checks, own, whole, raw })
    }
}

/// Returns the type as written: a fragment from a `macro_rules!` macro comes in an invisible group.
fn written(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => written(&group.elem),
        Type::Paren(paren) => written(&paren.elem),
        other => other,
    }
}

/// Returns the bound of the types that may be passed for a pointer, its element, and the resulting pointer.
fn of_pointer<'a>(pointer: &'a TypePtr, field: Option<&Ident>) -> (TokenStream, &'a Type, TokenStream) {
    let is_writable = matches!(pointer.mutability, PointerMutability::Mut(_));
    let text = field.map(Ident::to_string);
    let flat = |kind: &str| {
        let kind = format_ident!("{kind}");
        quote! {
            ::cuda_std::launch::Arg::<#pointer, { ::cuda_std::param::#kind }>::flatten(
                &mut self.#field, #text, __buffers,
            )
        }
    };
    let (bound, element, value) = match written(&pointer.elem) {
        Type::Slice(slice) => {
            let (bound, kind, join) = match is_writable {
                true => ("SliceMutArg", "MUT_SLICE", quote!(::core::ptr::slice_from_raw_parts_mut)),
                false => ("SliceArg", "CONST_SLICE", quote!(::core::ptr::slice_from_raw_parts)),
            };
            let flat = flat(kind);
            (bound, &*slice.elem, quote!({ let (first, len) = #flat; #join(first, len) }))
        }
        element => {
            let (bound, kind) = if is_writable { ("PtrMutArg", "MUT") } else { ("PtrArg", "CONST") };
            let flat = flat(kind);
            (bound, element, quote!(#flat.0))
        }
    };
    let bound = format_ident!("{bound}");
    (quote!(::cuda_std::launch::#bound<#element>), element, value)
}

/// Refuses an alias of a pointer, if its type is known here.
fn check(ty: &Type, field: Option<&Ident>, generics: &Generics) -> Option<TokenStream> {
    if generics.params.iter().any(|param| mentions(ty.to_token_stream(), name(param))) {
        return None;
    }
    let message = format!(
        "the field `{}` is an alias of a pointer or reference, so a launch cannot check its memory; write it as \
         `*const T` or `*mut T`",
        field?
    );
    Some(quote_spanned! {ty.span()=>
        const _: () = ::core::assert!(
            ::core::matches!(
                ::cuda_std::__kind!(#ty),
                ::cuda_std::param::VALUE | ::cuda_std::param::OVER_ALIGNED
            ),
            #message
        );
    })
}

fn name(param: &GenericParam) -> &Ident {
    match param {
        GenericParam::Type(ty) => &ty.ident,
        GenericParam::Const(constant) => &constant.ident,
        GenericParam::Lifetime(lifetime) => &lifetime.lifetime.ident,
    }
}

/// Returns the parameter as an argument.
fn as_argument(param: &GenericParam) -> TokenStream {
    match param {
        GenericParam::Lifetime(lifetime) => lifetime.lifetime.to_token_stream(),
        _ => name(param).to_token_stream(),
    }
}
