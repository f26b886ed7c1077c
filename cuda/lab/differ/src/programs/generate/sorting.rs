//! Sorted and searched sequences.

use super::Generator;
use crate::programs::ast::*;

/// For elements with a total order; `$a0` is a `usize` and `$a1` an element. The runtime's functions are not inlined, so
/// that programs share them: a sort is a lot of code.
const OF_ORDERED: [&str; 10] = [
    "put_in_order(&mut $p0[..]);",
    "put_in_order(&mut $p0[..]);",
    "put_in_order(&mut $p0[..]);",
    "put_in_reverse(&mut $p0[..]);",
    "{ let n = $a0 % $p0.len(); select(&mut $p0[..], n); }",
    "{ let n = $a0 % $p0.len(); select(&mut $p0[..], n); let x = $p0[n]; $p0[n..].fill(x); }",
    "{ put_in_order(&mut $p0[..]); let x = $a1; let n = $p0.binary_search(&x).unwrap_or_else(|n| n); let n = n % $p0.len(); $p0[n] = x; }",
    "if !$p0.is_sorted() { put_in_order(&mut $p0[..]); let x = $a1; let n = $p0.partition_point(|y| *y < x); $p0[..n].reverse(); }",
    "{ let n = $a0 % ($p0.len() + 1); put_in_order(&mut $p0[..n]); put_in_reverse(&mut $p0[n..]); }",
    "{ let n = $p0.len().min(18); $p0[..n].sort_unstable(); }",
];

/// For any elements.
const OF_ANY: [&str; 2] =
    ["order_by_mix(&mut $p0[..]);", "{ let n = $a0 % $p0.len(); order_by_mix(&mut $p0[..n]); }"];

impl Generator {
    /// A sort, a selection or a search; usually the elements are first made different.
    pub(super) fn sorting(&mut self) -> Option<Stmt> {
        // The longest of several: short ones use insertion sort.
        let found: Vec<_> = (0..3).filter_map(|_| self.sequence(true)).collect();
        let (place, element, len) = found.into_iter().max_by_key(|(_, _, len)| *len)?;
        if element == Ty::Generic {
            return None;
        }
        let is_int = matches!(element, Ty::Int(_));
        self.spend(8 * len as u64).then_some(())?;
        let args = vec![self.expr(&USIZE, 1), self.expr(&element, 1), self.expr(&Ty::unsigned(64), 1)];
        let is_float = matches!(element, Ty::F32 | Ty::F64);
        let text = if self.program.is_ordered(&element) {
            OF_ORDERED[self.random.below(OF_ORDERED.len())]
        } else if is_float && self.random.chance(60) {
            "order_floats(&mut $p0[..]);"
        } else {
            OF_ANY[self.random.below(OF_ANY.len())]
        };
        let text = match &element {
            Ty::Int(int) if is_int && self.random.chance(70) => format!(
                "{{ let mut n = $a2; for x in $p0.iter_mut() {{ *x ^= next_word(&mut n) as {}; }} {text} }}",
                int.name()
            ),
            Ty::F32 | Ty::F64 if self.random.chance(60) => format!(
                "{{ let mut n = $a2; for x in $p0.iter_mut() {{ *x += (next_word(&mut n) as i16) as {}; }} {text} }}",
                element.name()
            ),
            _ => text.to_owned(),
        };
        Some(Stmt::Form(Form { text, args, places: vec![place], ..Form::default() }))
    }
}
