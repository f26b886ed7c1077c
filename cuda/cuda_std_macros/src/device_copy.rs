//! `#[derive(DeviceCopy)]`: a type is copied to the device if each of its fields may be.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Field, parse_quote};

pub fn expand(item: TokenStream) -> syn::Result<TokenStream> {
    let DeriveInput { ident, mut generics, data, .. } = syn::parse2(item)?;
    let fields: Vec<Field> = match data {
        Data::Struct(data) => data.fields.into_iter().collect(),
        Data::Enum(data) => data.variants.into_iter().flat_map(|variant| variant.fields).collect(),
        Data::Union(data) => data.fields.named.into_iter().collect(),
    };
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::cust::memory::DeviceCopy));
    }
    let predicates = &mut generics.make_where_clause().predicates;
    for Field { ty, .. } in fields {
        predicates.push(parse_quote!(#ty: ::cust::memory::DeviceCopy));
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        // SAFETY: each field is `DeviceCopy`, by the conditions.
        unsafe impl #parameters ::cust::memory::DeviceCopy for #ident #arguments #conditions {}
    })
}
