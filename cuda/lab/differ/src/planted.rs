//! Wrong edits of LLVM IR and of PTX, which the comparison must detect: single stores or operands, and known compiler
//! errors, at every place where they are possible.

use std::sync::{Mutex, PoisonError};

mod ir;
mod ptx;
pub mod search;

/// An edit that changes a program's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Removes the store of this number.
    Store(usize),
    /// Swaps the operands of the subtraction of this number.
    Sub(usize),
    /// A known compiler error.
    Class(&'static Class),
}

/// A kind of compiler error.
#[derive(Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// The compiler's behaviour.
    pub what: &'static str,
    edit: Edit,
}

#[derive(Debug)]
enum Edit {
    Ir(fn(&str) -> String),
    Ptx(fn(&str) -> String),
}

impl PartialEq for Edit {
    fn eq(&self, other: &Edit) -> bool {
        matches!((self, other), (Edit::Ir(_), Edit::Ir(_)) | (Edit::Ptx(_), Edit::Ptx(_)))
    }
}

impl Eq for Edit {}

/// All kinds.
pub static CLASSES: [Class; 12] = [
    Class {
        name: "remainder",
        what: "`%` of floats by a rounded quotient",
        edit: Edit::Ir(ir::with_rounded_remainders),
    },
    Class {
        name: "unwritten",
        what: "no mask after a register that one path leaves unwritten",
        edit: Edit::Ptx(ptx::with_unwritten_registers),
    },
    Class {
        name: "root",
        what: "square roots of f32 that are not rounded correctly",
        edit: Edit::Ptx(ptx::with_approximate_roots),
    },
    Class {
        name: "abs",
        what: "no sign extension of an absolute value of 16 bits",
        edit: Edit::Ptx(ptx::with_unsigned_absolutes),
    },
    Class {
        name: "index",
        what: "a boolean that is an index, less 2 instead of 0",
        edit: Edit::Ptx(ptx::with_wrong_indices),
    },
    Class {
        name: "overlap",
        what: "a copy whose ends may overlap, as one whose ends may not",
        edit: Edit::Ir(ir::with_careless_moves),
    },
    Class {
        name: "half",
        what: "floats of 16 bits rounded towards zero",
        edit: Edit::Ptx(ptx::with_cut_halves),
    },
    Class {
        name: "sign",
        what: "integers of 8 bits extended by zeros instead of the sign",
        edit: Edit::Ir(ir::without_signs),
    },
    Class {
        name: "order",
        what: "signed integers of 8 and 16 bits compared as unsigned ones",
        edit: Edit::Ir(ir::with_unsigned_orders),
    },
    Class {
        name: "carry",
        what: "sums of 128 bits without their carry",
        edit: Edit::Ptx(ptx::without_carries),
    },
    Class {
        name: "align",
        what: "accesses to packed structures as if these were aligned",
        edit: Edit::Ir(ir::with_alignment),
    },
    Class {
        name: "niche",
        what: "discriminants read without their upper bits",
        edit: Edit::Ir(ir::with_short_switches),
    },
];

impl std::str::FromStr for Planted {
    type Err = String;

    /// `store:5`, `sub:7`, and the name of a class.
    fn from_str(text: &str) -> Result<Planted, String> {
        if let Some(class) = CLASSES.iter().find(|class| class.name == text) {
            return Ok(Planted::Class(class));
        }
        let parsed = text.split_once(':').and_then(|(kind, number)| Some((kind, number.parse().ok()?)));
        match parsed {
            Some(("store", number)) => Ok(Planted::Store(number)),
            Some(("sub", number)) => Ok(Planted::Sub(number)),
            _ => {
                let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
                Err(format!("`{text}` is no edit: expected store:N, sub:N, {}", names.join(", ")))
            }
        }
    }
}

impl std::fmt::Display for Planted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Planted::Store(number) => write!(f, "store:{number}"),
            Planted::Sub(number) => write!(f, "sub:{number}"),
            Planted::Class(class) => write!(f, "{}", class.name),
        }
    }
}

/// The edit for the builder, which takes a function without state.
static OF_IR: Mutex<Option<Planted>> = Mutex::new(None);

impl Planted {
    /// The edit for the builder, if it edits LLVM IR.
    pub fn of_ir(self) -> Option<fn(String) -> String> {
        if matches!(self, Planted::Class(Class { edit: Edit::Ptx(_), .. })) {
            return None;
        }
        *OF_IR.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
        Some(|text| {
            let planted = *OF_IR.lock().unwrap_or_else(PoisonError::into_inner);
            match planted {
                Some(Planted::Store(number)) => ir::without_store(&text, number),
                Some(Planted::Sub(number)) => ir::with_swapped_sub(&text, number),
                Some(Planted::Class(Class { edit: Edit::Ir(edit), .. })) => edit(&text),
                _ => text,
            }
        })
    }

    /// The name of its kind.
    pub fn kind(self) -> &'static str {
        match self {
            Planted::Store(_) => "store",
            Planted::Sub(_) => "sub",
            Planted::Class(class) => class.name,
        }
    }

    /// The compiler's behaviour.
    pub fn what(self) -> &'static str {
        match self {
            Planted::Store(_) => "a store left out",
            Planted::Sub(_) => "the operands of a subtraction swapped",
            Planted::Class(class) => class.what,
        }
    }

    /// Applies the error to the PTX, if it is one of PTX.
    pub fn in_ptx(self, text: String) -> String {
        match self {
            Planted::Class(Class { edit: Edit::Ptx(edit), .. }) => edit(&text),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_have_names() {
        assert_eq!("store:7".parse(), Ok(Planted::Store(7)));
        for class in &CLASSES {
            let planted = Planted::Class(class);
            assert_eq!(planted.to_string().parse(), Ok(planted));
        }
        assert!("add:1".parse::<Planted>().is_err());
    }
}
