//! Loops, which all terminate.

use super::Generator;
use crate::programs::ast::*;

impl Generator {
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("'l{}", self.labels)
    }

    /// The body of a loop that can be left by its label.
    fn body(&mut self, label: &str, times: u64, depth: usize, bound: Option<Ty>) -> (Option<Var>, Block) {
        self.loops.push(label.to_owned());
        let made = self.repeated(times, |this| {
            let var = bound.map(|ty| this.declare(ty, Mode::Value, false));
            (var, this.block(depth))
        });
        self.loops.pop();
        made
    }

    /// A counting loop.
    pub(super) fn any_loop(&mut self, depth: usize) -> Stmt {
        let most = if self.times > 30 { 5 } else { 20 };
        let count = self.random.between(1, most);
        let label = self.label();
        let start = self.some_int();
        match self.random.below(5) {
            0 => {
                let (var, block) = self.body(&label, count as u64, depth, Some(USIZE));
                let limit = self.expr(&USIZE, 1);
                let text = format!("{label}: for $v0 in 0..($a0 % {}) $b0", count + 1);
                Stmt::Form(Form {
                    text,
                    args: vec![limit],
                    blocks: vec![block],
                    binds: var.into_iter().collect(),
                    ..Form::default()
                })
            }
            1 => {
                let (_, block) = self.body(&label, count as u64, depth, None);
                let text = format!("{{ let mut n = 0; {label}: while n < $a0 {{ n += 1; $b0 }} }}");
                Stmt::Form(Form {
                    text,
                    args: vec![Expr::size(count)],
                    blocks: vec![block],
                    ..Form::default()
                })
            }
            2 => {
                let condition = self.expr(&Ty::Bool, 1);
                let (_, block) = self.body(&label, count as u64, depth, None);
                let text = format!(
                    "{{ let mut n = 0u32; {label}: loop {{ n += 1; if n > {count} || (n > 2 && $a0) {{ break; }} $b0 }} }}"
                );
                Stmt::Form(Form { text, args: vec![condition], blocks: vec![block], ..Form::default() })
            }
            // A variable of any width that is shifted or divided until it is zero.
            3 => {
                let value = self.expr(&start, 2);
                let Ty::Int(int) = start else { return self.any_loop(depth) };
                let unsigned = int.unsigned();
                let (var, block) = self.body(&label, u64::from(int.bits) / 3, depth, Some(Ty::Int(unsigned)));
                let text = format!(
                    "{{ let mut n = $a0 as {}; {label}: while n != 0 {{ let $v0 = n; n {} 9; $b0 }} }}",
                    unsigned.name(),
                    if self.random.chance(50) || int.bits == 8 { "/=" } else { ">>=" }
                );
                Stmt::Form(Form {
                    text,
                    args: vec![value],
                    blocks: vec![block],
                    binds: var.into_iter().collect(),
                    ..Form::default()
                })
            }
            _ => {
                let bound = Ty::Int(Int::new([8, 32, 64][self.random.below(3)], self.random.chance(50)));
                let (var, block) = self.body(&label, count as u64, depth, Some(bound.clone()));
                let name = bound.name();
                let ranges = [
                    format!("0..{count}{name}"),
                    format!("(0..{count}{name}).rev()"),
                    format!("(1..={count}{name})"),
                    format!("(0..{}{name}).step_by(3)", (count * 3).min(100)),
                ];
                let text = format!("{label}: for $v0 in {} $b0", ranges[self.random.below(ranges.len())]);
                Stmt::Form(Form {
                    text,
                    blocks: vec![block],
                    binds: var.into_iter().collect(),
                    ..Form::default()
                })
            }
        }
    }

    /// A loop over the elements of an array, which may change some of them.
    pub(super) fn iteration(&mut self, depth: usize) -> Option<Stmt> {
        let writes = self.random.chance(65);
        let (place, element, len) = self.sequence(writes)?;
        self.spend(3 * len as u64).then_some(())?;
        self.locked.push(place.var);
        let made = if writes {
            self.changing(place, element, len, depth)
        } else {
            self.reading(place, element, len, depth)
        };
        self.locked.pop();
        made
    }

    fn reading(&mut self, place: Place, element: Ty, len: usize, depth: usize) -> Option<Stmt> {
        let label = self.label();
        let ways = [
            "for &$v0 in $p0.iter() $b0",
            "for &$v0 in $p0.iter().rev() $b0",
            "for $v0 in $p0.iter().copied().step_by(2) $b0",
            "for $v0 in $p0.windows(2).map(|w| w[1]) $b0",
            "for $v0 in $p0.chunks(3).filter_map(|c| c.last().copied()) $b0",
            "for $v0 in $p0.into_iter().copied().skip(1) $b0",
        ];
        // An array becomes an iterator over values, a slice one over references.
        let way = ways[self.random.below(ways.len() - 1)];
        let (var, block) = self.body(&label, len as u64, depth, Some(element));
        let text = format!("{label}: {way}");
        Some(Stmt::Form(Form {
            text,
            places: vec![place],
            blocks: vec![block],
            binds: var.into_iter().collect(),
            ..Form::default()
        }))
    }

    /// Changes elements one by one, together with those of another array or with their neighbours.
    fn changing(&mut self, place: Place, element: Ty, len: usize, depth: usize) -> Option<Stmt> {
        if self.random.chance(50) {
            let other = self.sequence(false);
            if let Some((other, of_other, _)) = other {
                let args = self.repeated(len as u64, |this| {
                    let a = this.declare(element.clone(), Mode::Value, false);
                    let b = this.declare(of_other, Mode::Value, false);
                    (a, b, this.expr(&element, depth.min(2)))
                });
                let ways = [
                    "for (to, from) in $p0.iter_mut().zip($p1.iter()) { let ($v0, $v1) = (*to, *from); *to = $a0; }",
                    "for (to, from) in $p0.iter_mut().rev().zip($p1.iter()) { let ($v0, $v1) = (*to, *from); *to = $a0; }",
                    "for (to, from) in $p0.chunks_exact_mut(2).zip($p1.chunks_exact(2)) \
                     { let ($v0, $v1) = (to[1], from[0]); to[0] = $a0; }",
                ];
                let text = ways[self.random.below(ways.len())].to_owned();
                let (a, b, value) = args;
                return Some(Stmt::Form(Form {
                    text,
                    args: vec![value],
                    places: vec![place, other],
                    binds: vec![a, b],
                    ..Form::default()
                }));
            }
        }
        let (at, old, value) = self.repeated(len as u64, |this| {
            let at = this.declare(USIZE, Mode::Value, false);
            let old = this.declare(element.clone(), Mode::Value, false);
            (at, old, this.expr(&element, depth.min(2)))
        });
        let ways = [
            "for ($v0, x) in $p0.iter_mut().enumerate() { let $v1 = *x; *x = $a0; }",
            "$p0.iter_mut().enumerate().for_each(|($v0, x)| { let $v1 = *x; *x = $a0; });",
            "for $v0 in 0..$p0.len() { let $v1 = $p0[$p0.len() - 1 - $v0]; $p0[$v0] = $a0; }",
            "for $v0 in 1..$p0.len() { let $v1 = $p0[$v0 - 1]; $p0[$v0] = $a0; }",
            "for ($v0, x) in $p0.chunks_mut(4).enumerate() { let $v1 = x[0]; x[x.len() - 1] = $a0; }",
        ];
        let text = ways[self.random.below(ways.len())].to_owned();
        Some(Stmt::Form(Form {
            text,
            args: vec![value],
            places: vec![place],
            binds: vec![at, old],
            ..Form::default()
        }))
    }
}
