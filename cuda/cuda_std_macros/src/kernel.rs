//! `#[kernel]`.

mod arguments;
mod device;
mod eval;
mod host;
mod instances;
pub(crate) mod name;
mod param;
mod stamp;

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Error, File, GenericParam, ItemFn, Result, ReturnType, Safety, Type};

use arguments::{Arguments, Bounds};
use param::{GENERIC, Param, param};
use stamp::{DeviceCall, Listed, Stamped};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item)?;
    name::check(&function.sig.ident.to_string(), function.sig.ident.span())?;
    let arguments = Arguments::of(attribute, &function)?;
    check_signature(&function, arguments.instances.is_some())?;
    let args = arguments.args.as_ref();
    let (facts_type, facts) = arguments.facts.as_ref().map(|(ty, facts)| (ty, facts)).unzip();
    let Some(instances) = &arguments.instances else {
        stamp::refuse_attributes(&function)?;
        let kernel = kernel(&function, None, arguments.bounds(None)?)?;
        let launch_type = name::of_launch_type(&function.sig.ident);
        let facts = stamp::facts(&function, facts, None);
        let entry = Listed { launch_type: launch_type.clone(), facts, params: kernel.params, cfg: None };
        let lists = stamp::lists(&function, &[entry], args, facts_type, &launch_type)?;
        let tokens = kernel.tokens;
        return Ok(quote!(#tokens #lists));
    };
    let (generic, stamped) = stamp::kernels(&function, instances)?;
    let mut kernels = TokenStream::new();
    let mut entries = Vec::new();
    for (instance, Stamped { function, call }) in instances.iter().zip(&stamped) {
        let kernel = kernel(function, Some(call), arguments.bounds(Some(instance))?)?;
        let items: File = syn::parse2(kernel.tokens)?;
        let (items, cfg) = (items.items, &instance.cfg);
        kernels.extend(quote!(#(#cfg #items)*));
        let facts = stamp::facts(&generic, facts, Some(instance));
        let launch_type = name::of_launch_type(&instance.name);
        entries.push(Listed { launch_type, facts, params: kernel.params, cfg: instance.cfg.clone() });
    }
    let list_type = name::of_launch_type(&function.sig.ident);
    let lists = stamp::lists(&function, &entries, args, facts_type, &list_type)?;
    let (vis, text) = (&function.vis, function.sig.ident.to_string());
    let doc = format!("The list of the kernels that [`{text}`](fn@{text}) makes.");
    Ok(quote! {
        #[allow(dead_code, reason = "a device may have none of the instances")]
        #generic
        #kernels
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc]
        #[allow(dead_code, non_camel_case_types, reason = "it has the kernel's name, and not everybody asks for the list")]
        #vis enum #list_type {}
        #lists
    })
}

/// A kernel that is not generic, and its parameters.
struct Kernel {
    tokens: TokenStream,
    params: Vec<Param>,
}

fn kernel(function: &ItemFn, call: Option<&DeviceCall>, bounds: Bounds) -> Result<Kernel> {
    let params = function.sig.inputs.iter().enumerate().map(param).collect::<Result<Vec<_>>>()?;
    let device = device::entry(function, call, &params, bounds);
    let host = host::launch(function, &params, bounds);
    let tokens = quote! {
        #device
        #[cfg(not(target_arch = "nvptx64"))]
        #function
        #host
    };
    Ok(Kernel { tokens, params })
}

fn check_signature(function: &ItemFn, has_instances: bool) -> Result<()> {
    let sig = &function.sig;
    if !matches!(sig.safety, Safety::Unsafe(_)) {
        let message = "a kernel must be an unsafe fn: its caller is responsible for grid and pointers";
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
        if !has_instances && !matches!(generic, GenericParam::Lifetime(_)) {
            return Err(Error::new(generic.span(), GENERIC));
        }
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new(variadic.span(), "a kernel cannot be variadic"));
    }
    Ok(())
}
