//! Copies and fills with lengths that fit no register.

use super::Generator;
use crate::programs::ast::*;

/// Two ranges of the same length: `n` elements, starting at `i` in the first and at `j` in the second.
const RANGES: &str = "let n = $a0 % ($p0.len().min($p1.len()) + 1); let i = $a1 % ($p0.len() - n + 1); \
                      let j = $a2 % ($p1.len() - n + 1); ";

const OF_TWO: [&str; 5] = [
    "$p0[i..i + n].copy_from_slice(&$p1[j..j + n]);",
    "$p0[i..i + n].clone_from_slice(&$p1[j..j + n]);",
    "unsafe { core::ptr::copy_nonoverlapping($p1.as_ptr().add(j), $p0.as_mut_ptr().add(i), n) }",
    "unsafe { core::ptr::copy($p1.as_ptr().add(j), $p0.as_mut_ptr().add(i), n) }",
    "for (to, from) in $p0[i..i + n].iter_mut().zip(&$p1[j..j + n]) { *to = *from; }",
];

/// A range of `n` elements starting at `i`, and a value.
const RANGE: &str = "let n = $a0 % ($p0.len() + 1); let i = $a1 % ($p0.len() - n + 1); let k = $a2 % ($p0.len() - n + 1); let x = $a3; ";

const OF_ONE: [&str; 21] = [
    "$p0[i..i + n].fill(x);",
    "$p0.copy_within(i..i + n, k);",
    "$p0[i..i + n].reverse();",
    "$p0[i..i + n].rotate_left(k.min(n));",
    "for y in &mut $p0[i..i + n] { *y = x; }",
    "unsafe { let p = $p0.as_mut_ptr(); core::ptr::copy(p.add(i), p.add(k), n) }",
    "$p0[i..i + n].fill_with(|| x);",
    "for at in i..i + n { $p0[at] = x; }",
    "if let Some(y) = $p0.get_mut(i) { *y = x; } if let Some(y) = $p0.last_mut() { *y = x; }",
    "if let Some((y, _)) = $p0[i..i + n].split_first_mut() { *y = x; }",
    "{ let c = core::cell::Cell::from_mut(&mut $p0[..]).as_slice_of_cells(); smeared(&c[i..i + n], &c[k..k + n]); }",
    "{ let c = core::cell::Cell::from_mut(&mut $p0[..]).as_slice_of_cells(); smeared(&c[k..k + n], &c[i..i + n]); c[k.min(c.len() - 1)].set(x); }",
    "{ let c = core::cell::Cell::from_mut(&mut $p0[..]).as_slice_of_cells(); swapped(&c[i..i + n], &c[k..k + n]); c[k.min(c.len() - 1)].set(x); }",
    "unsafe { let p = $p0.as_mut_ptr(); moved(p.add(i), p.add(k), n) }",
    "unsafe { let p = $p0.as_mut_ptr(); moved(p.add(k), p.add(i), n); *p = x; }",
    "{ let (a, b) = $p0.split_at_mut(i); let m = n.min(a.len()).min(b.len()); a[..m].swap_with_slice(&mut b[..m]); }",
    "for c in $p0[i..i + n].chunks_exact_mut(3) { c.rotate_left(1); c[0] = x; }",
    "for c in $p0[i..i + n].rchunks_mut(5) { c.reverse(); c[c.len() - 1] = x; }",
    "for c in $p0[i..i + n].as_chunks_mut::<4>().0 { *c = [c[3], x, c[0], c[1]]; }",
    "if let Ok([y, z]) = $p0.get_disjoint_mut([i, k]) { core::mem::swap(y, z); *y = x; }",
    "{ let (_, b) = $p0.split_at_mut(i); let h = b.len() / 2; b.copy_within(..h, b.len() - h); }",
];

impl Generator {
    /// A copy or a fill.
    pub(super) fn memory(&mut self) -> Option<Stmt> {
        match self.random.weighted(&[30, 50, 14, 14, 6, 6]) {
            0 => self.of_two(),
            1 => self.of_one(),
            2 => self.padded(),
            3 => self.number_into_bytes(),
            4 => self.swap(),
            _ => self.halves(),
        }
    }

    fn amount(&mut self) -> Expr {
        match self.random.below(3) {
            0 => self.expr(&USIZE, 1),
            _ => Expr::size(self.random.below(40)),
        }
    }

    fn of_two(&mut self) -> Option<Stmt> {
        let (to, element, len) = self.sequence(true)?;
        self.spend(2 * len as u64).then_some(())?;
        self.locked.push(to.var);
        let from = (0..6).find_map(|_| self.sequence(false).filter(|(_, other, _)| *other == element));
        self.locked.pop();
        let (from, ..) = from?;
        let args = vec![self.amount(), self.amount(), self.amount()];
        let text = format!("{{ {RANGES}{} }}", OF_TWO[self.random.below(OF_TWO.len())]);
        Some(Stmt::Form(Form { text, args, places: vec![to, from], ..Form::default() }))
    }

    fn of_one(&mut self) -> Option<Stmt> {
        let (to, element, len) = self.sequence(true)?;
        self.spend(2 * len as u64).then_some(())?;
        let args = vec![self.amount(), self.amount(), self.amount(), self.expr(&element, 2)];
        let text = format!("{{ {RANGE}{} }}", OF_ONE[self.random.below(OF_ONE.len())]);
        Some(Stmt::Form(Form { text, args, places: vec![to], ..Form::default() }))
    }

    /// Writes an array byte by byte, like generic arrays, and copies a part of it: like hashes that pad a block.
    fn padded(&mut self) -> Option<Stmt> {
        let (to, len) = self.byte_array(4, true)?;
        self.spend(3 * len as u64).then_some(())?;
        let size = [len, len, 16, 64, 128][self.random.below(5)];
        let most = size.min(len);
        let (count, at) = (self.random.between(1, most), self.random.below(len));
        let count = count.min(len - at);
        let from = self.random.below(size - count + 1);
        let value = if self.random.chance(60) {
            Expr::literal(Ty::unsigned(8), 0)
        } else {
            self.expr(&Ty::unsigned(8), 1)
        };
        let text = format!(
            "{{ let x = $a0; let mut all = core::mem::MaybeUninit::<[u8; {size}]>::uninit(); \
             let bytes = all.as_mut_ptr().cast::<u8>(); let mut i = 0; \
             while i < {size} {{ unsafe {{ bytes.add(i).write(x) }}; i += 1; }} \
             let all = unsafe {{ all.assume_init() }}; $p0[{at}..{}].copy_from_slice(&all[{from}..{}]); }}",
            at + count,
            from + count
        );
        Some(Stmt::Form(Form { text, args: vec![value], places: vec![to], ..Form::default() }))
    }

    /// Writes the bytes of a number to an array.
    fn number_into_bytes(&mut self) -> Option<Stmt> {
        let bits = [16, 32, 64, 64, 128, 128][self.random.below(6)];
        let bytes = bits / 8;
        let (to, len) = self.byte_array(bytes, true)?;
        let at = if self.random.chance(60) { len - bytes } else { self.random.between(0, len - bytes) };
        let end = ["le", "be"][self.random.below(2)];
        let value = self.expr(&Ty::unsigned(bits as u32), 2);
        let text =
            format!("{{ let x = $a0.to_{end}_bytes(); $p0[{at}..{}].copy_from_slice(&x); }}", at + bytes);
        Some(Stmt::Form(Form { text, args: vec![value], places: vec![to], ..Form::default() }))
    }

    fn swap(&mut self) -> Option<Stmt> {
        let ty = self.palette_ty();
        let a = self.place(&ty, true, 1)?;
        self.locked.push(a.var);
        let b = self.place(&ty, true, 1);
        self.locked.pop();
        let text = match self.random.below(3) {
            0 => "core::mem::swap(&mut $p0, &mut $p1);",
            1 => "{ let old = core::mem::replace(&mut $p0, $p1); $p1 = old; }",
            _ => "unsafe { core::ptr::swap(&raw mut $p0, &raw mut $p1) }",
        };
        Some(Stmt::Form(Form { text: text.to_owned(), places: vec![a, b?], ..Form::default() }))
    }

    /// Uses two parts of one array at the same time.
    fn halves(&mut self) -> Option<Stmt> {
        let (to, element, len) = self.sequence(true)?;
        self.spend(2 * len as u64).then_some(())?;
        let args = vec![self.amount(), self.expr(&element, 1)];
        let texts = [
            "{ let h = $a0 % ($p0.len() + 1); let (a, b) = $p0.split_at_mut(h); for (x, y) in a.iter_mut().zip(b) { core::mem::swap(x, y); } }",
            "{ let k = $a1; let h = $a0 % ($p0.len() + 1); let (a, b) = $p0.split_at_mut(h); let n = a.len().min(b.len()); \
             a[..n].copy_from_slice(&b[..n]); if let Some(x) = b.first_mut() { *x = k; } }",
            "{ let (i, j) = ($a0 % $p0.len(), 0); $p0.swap(i, j); }",
            "{ let k = $a1; for pair in $p0.chunks_mut(2) { pair.swap(0, pair.len() - 1); if pair.len() < 2 { pair[0] = k; } } }",
        ];
        let text = texts[self.random.below(texts.len())].to_owned();
        Some(Stmt::Form(Form { text, args, places: vec![to], ..Form::default() }))
    }
}
