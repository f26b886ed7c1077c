//! Functions that recurse to the depth in an argument, and functions that are called through a pointer.

use super::Generator;
use crate::programs::ast::*;

/// Functions `r` of a number of calls and an `INT`; `$v0` is the value and `$v1` the number.
const RECURSIVE: [&str; 6] = [
    "{ fn r($v1: u32, $v0: INT) -> INT { if $v1 == 0 { $v0 } else { r($v1 - 1, $a0).wrapping_add($v0) } } r($a2 % 9, $a3) }",
    "{ fn r($v1: u32, $v0: INT) -> INT { if $v1 < 2 { $a0 } else { r($v1 - 1, $v0).wrapping_mul(3) ^ r($v1 - 2, $a1) } } r($a2 % 7, $a3) }",
    "{ #[inline(never)] fn r($v1: u32, $v0: INT) -> INT { let mut all = [$v0; 9]; \
     for (i, x) in all.iter_mut().enumerate() { *x = x.wrapping_add(i as INT); } if $v1 == 0 { return $a0; } \
     let k = r($v1 - 1, all[$v1 as usize % 9]); all[k as usize % 9] ^ k } r($a2 % 9, $a3) }",
    "{ fn a($v1: u32, $v0: INT) -> INT { if $v1 == 0 { $v0 } else { b($v1 - 1, $a0) } } \
     fn b($v1: u32, $v0: INT) -> INT { if $v1 == 0 { !$v0 } else { a($v1 - 1, $a1).rotate_left(1) } } a($a2 % 11, $a3) }",
    "{ #[inline(never)] fn r($v1: u32, $v0: INT, f: &dyn Fn(INT) -> INT) -> INT { \
     if $v1 == 0 { f($v0) } else { let y = $v0; r($v1 - 1, $a0, &|x| f(x) ^ y) } } r($a2 % 6, $a3, &|x| x.rotate_left(5)) }",
    "{ let all: [fn(u32, INT) -> INT; 3] = [|$v1, $v0| $a0, |$v1, $v0| $a1, |_, x| !x]; all[$a2 as usize % 3]($a2, $a3) }",
];

impl Generator {
    /// The result of such a function.
    pub(super) fn recursive(&mut self, int: Int, depth: usize) -> Expr {
        let ty = Ty::Int(int);
        if !self.spend(100) {
            return self.leaf(&ty);
        }
        let of_calls = Ty::unsigned(32);
        let (value, calls, a, b) = self.alone(|this| {
            this.repeated(20, |this| {
                let value = this.declare(ty.clone(), Mode::Value, false);
                let calls = this.declare(of_calls.clone(), Mode::Value, false);
                let depth = depth.min(1);
                (value, calls, this.expr(&ty, depth), this.expr(&ty, depth))
            })
        });
        let args = vec![a, b, self.expr(&of_calls, 1), self.expr(&ty, 1)];
        let text = RECURSIVE[self.random.below(RECURSIVE.len())].replace("INT", &int.name());
        let form = Form { text, args, binds: vec![value, calls], ..Form::default() };
        Expr { ty, node: Node::Form(form) }
    }

    /// Runs `make` for a nested function, which sees none of the outer variables.
    fn alone<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let seen = (core::mem::take(&mut self.scope), core::mem::take(&mut self.locked));
        let (has_input, loops) = (self.has_input, core::mem::take(&mut self.loops));
        self.has_input = false;
        let made = make(self);
        (self.scope, self.locked) = seen;
        (self.has_input, self.loops) = (has_input, loops);
        made
    }
}
