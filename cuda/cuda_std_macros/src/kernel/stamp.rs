//! Creates an ordinary kernel for each instance in the list of a generic function.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, FnArg, GenericParam, Index, ItemFn, Pat, PatType, PointerMutability, Result,
    Type, TypePtr, parse_quote,
};

use super::arguments::HostArguments;
use super::instances::Instance;
use super::param::Param;
use crate::tokens::{mentions, replaced};

/// A kernel in the lists for host code.
pub(super) struct Listed {
    pub launch_type: Ident,
    pub facts: TokenStream,
    pub params: Vec<Param>,
    pub cfg: Option<Attribute>,
}

/// Where the instances get a parameter of the generic function from.
enum Source {
    /// An argument of the launch.
    Launch,
    /// An argument of the launch with another type, `#[from(TYPE)]`, which is converted with `as`.
    Converted(Type),
    /// Not an argument of the launch, `#[shared(LEN)]`: memory of each entry point.
    Shared { element: Type, len: Expr },
}

const ATTRIBUTES: [&str; 2] = ["shared", "from"];

fn is_ours(attr: &Attribute) -> bool {
    ATTRIBUTES.iter().any(|name| attr.path().is_ident(name))
}

/// Removes the attribute that sets the source from a parameter, and returns the source.
fn take_source(input: &mut FnArg) -> Result<Source> {
    let FnArg::Typed(param) = input else { return Ok(Source::Launch) };
    let Some(at) = param.attrs.iter().position(is_ours) else { return Ok(Source::Launch) };
    let attr = param.attrs.remove(at);
    match &*param.ty {
        _ if attr.path().is_ident("from") => Ok(Source::Converted(attr.parse_args()?)),
        Type::Ptr(TypePtr { mutability: PointerMutability::Mut(_), elem, .. }) => {
            Ok(Source::Shared { element: (**elem).clone(), len: attr.parse_args()? })
        }
        other => Err(Error::new_spanned(other, "shared memory comes as a pointer: `*mut T`")),
    }
}

/// Refuses attributes of parameters of a kernel without instances.
pub(super) fn refuse_attributes(function: &ItemFn) -> Result<()> {
    let typed = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    match typed.flat_map(|typed| &typed.attrs).find(|attr| is_ours(attr)) {
        None => Ok(()),
        Some(attr) => Err(Error::new_spanned(
            attr,
            "`#[shared(..)]` and `#[from(..)]` are for kernels with `instances(..)`; use `shared_array!` and `as` in the \
             body",
        )),
    }
}

/// An instance as a function that is not generic, and how its entry on the GPU calls the generic one.
pub(super) struct Stamped {
    pub function: ItemFn,
    pub call: DeviceCall,
}

/// The call in an entry on the GPU.
pub(super) struct DeviceCall {
    /// The code before the call.
    pub before: TokenStream,
    /// The called function.
    pub callee: TokenStream,
    pub arguments: Vec<DeviceArgument>,
}

/// An argument of the call in an entry on the GPU.
pub(super) enum DeviceArgument {
    /// Its next parameter, perhaps with an `as TYPE` after it.
    Next(TokenStream),
    Other(TokenStream),
}

/// Returns the generic function, and a kernel for each instance.
pub(super) fn kernels(function: &ItemFn, instances: &[Instance]) -> Result<(ItemFn, Vec<Stamped>)> {
    let mut generic = function.clone();
    generic.attrs.push(parse_quote!(#[inline(always)]));
    let sources = generic.sig.inputs.iter_mut().map(take_source).collect::<Result<Vec<_>>>()?;
    let same = instances.iter().find(|instance| instance.name == function.sig.ident);
    if let Some(same) = same {
        let message = "an instance cannot have the name of the function itself";
        return Err(Error::new(same.name.span(), message));
    }
    let kernels = instances.iter().map(|instance| stamp(&generic, &sources, instance)).collect();
    Ok((generic, kernels))
}

fn stamp(generic: &ItemFn, sources: &[Source], instance: &Instance) -> Stamped {
    let Instance { name, arguments, .. } = instance;
    let (function, vis) = (&generic.sig.ident, &generic.vis);
    let items = items(generic, instance);
    let values = arguments.iter().map(|(name, value)| match is_type(generic, name) {
        true => value.clone(),
        false => quote!({ #value }),
    });
    let callee = quote!(#function::<#(#values),*>);

    let (mut inputs, mut passed) = (Vec::new(), Vec::new());
    let (mut elements, mut arrays, mut of_device) = (Vec::new(), Vec::new(), Vec::new());
    for (i, (input, source)) in generic.sig.inputs.iter().zip(sources).enumerate() {
        let FnArg::Typed(PatType { pat, ty, .. }) = input else { continue };
        let name = match &**pat {
            Pat::Ident(ident) => ident.ident.clone(),
            _ => format_ident!("argument_{i}"),
        };
        let (launched, conversion) = match source {
            Source::Launch => (&**ty, quote!()),
            Source::Converted(launched) => (launched, quote!(as #ty)),
            Source::Shared { element, len } => {
                let array = quote!(::cuda_std::shared_array![#element; #len]);
                let at = Index::from(arrays.len());
                passed.push(array.clone());
                elements.push(element);
                arrays.push(array);
                of_device.push(DeviceArgument::Other(quote!(__shared.#at)));
                continue;
            }
        };
        let launched = replaced(launched.to_token_stream(), arguments);
        inputs.push(quote!(#name: #launched));
        passed.push(quote!(#name #conversion));
        of_device.push(DeviceArgument::Next(conversion));
    }
    let list =
        arguments.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ");
    let doc = format!("[`{function}`](fn@{function}) with {list}.\n\n# Safety\nAs of that.");
    let lifetimes = generic.sig.generics.lifetimes();
    // The arrays are named after the function that contains them.
    let before = quote! {
        #items
        #[inline(always)]
        fn #name() -> (#(*mut #elements,)*) {
            (#(#arrays,)*)
        }
        let __shared = #name();
    };
    Stamped {
        function: parse_quote! {
            #[doc = #doc]
            #vis unsafe fn #name<#(#lifetimes),*>(#(#inputs),*) {
                #items
                // SAFETY: the function and its instances have the same contract; the shared memory belongs to the block.
                unsafe { #callee(#(#passed),*) }
            }
        },
        call: DeviceCall { before, callee, arguments: of_device },
    }
}

fn is_type(generic: &ItemFn, name: &Ident) -> bool {
    generic.sig.generics.type_params().any(|param| param.ident == *name)
}

/// Returns the generic parameters of an instance as items with their names.
pub(super) fn items(generic: &ItemFn, instance: &Instance) -> TokenStream {
    let items = generic.sig.generics.params.iter().filter_map(|param| {
        let value = |name: &Ident| instance.arguments.iter().find(|(known, _)| known == name);
        let item = match param {
            GenericParam::Type(ty) => {
                let (name, value) = value(&ty.ident)?;
                quote!(type #name = #value;)
            }
            GenericParam::Const(constant) => {
                let ((name, value), ty) = (value(&constant.ident)?, &constant.ty);
                quote!(const #name: #ty = #value;)
            }
            GenericParam::Lifetime(_) => return None,
        };
        Some(quote!(#[allow(dead_code, reason = "not every expression names every parameter")] #item))
    });
    quote!(#(#items)*)
}

/// Returns the lists from which host code chooses instances, on the type of this name. A kernel that is not generic is
/// its only instance.
pub(super) fn lists(
    function: &ItemFn,
    kernels: &[Listed],
    args: Option<&HostArguments>,
    facts: Option<&Type>,
    list_type: &Ident,
) -> Result<TokenStream> {
    let metas_of = kernels.iter().map(|Listed { launch_type, cfg, .. }| quote!(#cfg #launch_type::META));
    let name = function.sig.ident.to_string();
    let metas = format!(
        "Names and places of the kernels that [`{name}`](fn@{name}) makes, in the order of their list."
    );
    let facts = facts.map_or(quote!(()), |ty| quote!(#ty));
    let (own, others) = match args {
        None => (None, None),
        Some(HostArguments::Fields(args)) => (Some(list_of_fields(&name, kernels, args, &facts)), None),
        Some(HostArguments::Only) => (None, Some(lists_by_argument(function, kernels, &facts, list_type)?)),
    };
    Ok(quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(dead_code, reason = "not everybody asks for the list")]
        impl #list_type {
            #[doc = #metas]
            pub const KERNELS: &'static [&'static ::cuda_std::launch::KernelMeta] = &[#(#metas_of),*];

            #own
        }
        #others
    })
}

/// Returns the list of kernels that are launched with a struct that has a field for each of their parameters.
fn list_of_fields(name: &str, kernels: &[Listed], args: &Type, facts_type: &TokenStream) -> TokenStream {
    let doc = format!(
        "The kernels that [`{name}`](fn@{name}) makes with their launches and facts, in the order of their list."
    );
    let instances = kernels.iter().map(|Listed { launch_type, facts, params, cfg }| {
        let params = params.iter().map(|param| &param.name);
        quote! {
            #cfg
            ::cuda_std::launch::Instance {
                meta: #launch_type::META,
                launch: {
                    unsafe fn launch(
                        __on: &dyn ::cuda_std::launch::Launcher,
                        __config: ::cuda_std::launch::LaunchConfig,
                        __args: #args,
                    ) -> ::core::result::Result<(), ::cuda_std::launch::LaunchError> {
                        // SAFETY: the caller of the function guarantees the kernel's contract.
                        unsafe { #launch_type::launch(__on, __config, #(__args.#params),*) }
                    }
                    launch
                },
                facts: #facts,
            }
        }
    });
    quote! {
        #[doc = #doc]
        pub const INSTANCES: &'static [::cuda_std::launch::Instance<#args, #facts_type>] = &[#(#instances),*];
    }
}

/// The kernels whose only argument is a struct of type `args`, with their conditions.
struct ListOf<'a> {
    args: &'a Type,
    kernels: Vec<TokenStream>,
    cfgs: Vec<&'a Option<Attribute>>,
}

/// Returns a list for each struct that is the only argument of some of the kernels.
fn lists_by_argument(
    function: &ItemFn,
    kernels: &[Listed],
    facts_type: &TokenStream,
    list_type: &Ident,
) -> Result<TokenStream> {
    let mut lists: Vec<ListOf> = Vec::new();
    let mut checks = TokenStream::new();
    for Listed { launch_type, facts, params, cfg } in kernels {
        let [Param { ty, .. }] = &params[..] else {
            let message = format!(
                "`args` without a type needs a kernel whose only argument is a struct, but this one has {}; write \
                 `args = STRUCT`, with a field for each",
                params.len()
            );
            return Err(Error::new_spanned(&function.sig.inputs, message));
        };
        checks.extend(quote_spanned! {ty.span()=>
            #cfg
            #[cfg(not(target_arch = "nvptx64"))]
            const _: () = ::core::assert!(
                #launch_type::__KINDS[0] == ::cuda_std::param::VALUE,
                "`args` without a type needs a kernel whose only argument is a struct, but this one's is a pointer or reference"
            );
        });
        let kernel = quote! {
            #cfg
            // SAFETY: this is the type of the kernel's only parameter, which is passed by value.
            unsafe { ::cuda_std::launch::KernelOf::new(#launch_type::META, #facts) }
        };
        let is_same = |listed: &Type| quote!(#listed).to_string() == quote!(#ty).to_string();
        match lists.iter_mut().find(|list| is_same(list.args)) {
            Some(list) => {
                list.kernels.push(kernel);
                list.cfgs.push(cfg);
            }
            None => lists.push(ListOf { args: ty, kernels: vec![kernel], cfgs: vec![cfg] }),
        }
    }
    let lists = lists.iter().map(|ListOf { args, kernels, cfgs }| {
        // A list whose kernels all have the same condition has it, too.
        let text = |cfg: &Option<Attribute>| quote!(#cfg).to_string();
        let cfg = cfgs.iter().all(|cfg| text(cfg) == text(cfgs[0])).then_some(cfgs[0]).into_iter().flatten();
        quote! {
            #(#cfg)*
            #[cfg(not(target_arch = "nvptx64"))]
            impl ::cuda_std::launch::KernelsOf<#args> for #list_type {
                type Facts = #facts_type;
                const INSTANCES: &'static [::cuda_std::launch::KernelOf<#args, #facts_type>] = &[#(#kernels),*];
            }
        }
    });
    Ok(quote!(#checks #(#lists)*))
}

/// Returns the facts of an instance.
pub(super) fn facts(function: &ItemFn, facts: Option<&Expr>, instance: Option<&Instance>) -> TokenStream {
    let Some(facts) = facts else { return quote!(()) };
    let Some(instance) = instance else { return quote!(#facts) };
    let items = items(function, instance);
    let settings = instance.settings.iter().filter(|(name, _)| mentions(quote!(#facts), name));
    // If two settings have the same name, the first is the instance's own and shadows that of its group.
    let settings = settings.rev().map(|(name, value)| {
        quote! {
            #[allow(unused_variables, reason = "an instance's own hides its group's")]
            let #name = #value;
        }
    });
    quote!({ #items #(#settings)* #facts })
}
