//! Programs with parts removed: each edit gives a valid program, or one that does not compile.
//!
//! Nodes are numbered in the order of a walk over the program, blocks and values separately, so that several edits of one
//! program can be applied at once.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::*;

/// Edits of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Statements to remove: block and index.
    pub removed: BTreeSet<(usize, usize)>,
    /// Statements to replace by one of their blocks.
    pub spliced: BTreeMap<(usize, usize), usize>,
    /// Values to replace: by the argument with this index, or by the simplest value of their type.
    pub replaced: BTreeMap<usize, Option<usize>>,
}

impl Edits {
    /// Combines both.
    pub fn and(mut self, other: &Edits) -> Edits {
        self.removed.extend(&other.removed);
        self.spliced.extend(other.spliced.iter().map(|(key, value)| (*key, *value)));
        self.replaced.extend(other.replaced.iter().map(|(key, value)| (*key, *value)));
        self
    }
}

/// All single edits that may make the program smaller, by kind: removed statements, blocks in place of their statements,
/// simplified values.
pub fn single_edits(program: &Program) -> [Vec<Edits>; 3] {
    let mut walk = Walk {
        program: program.clone(),
        edits: Edits::default(),
        found: Some(Found::default()),
        blocks: 0,
        exprs: 0,
        gone: BTreeSet::new(),
    };
    walk.program();
    let found = walk.found.unwrap_or_default();
    let remove = |key: &(usize, usize)| Edits { removed: BTreeSet::from([*key]), ..Edits::default() };
    let splice = |(key, block): &((usize, usize), usize)| Edits {
        spliced: BTreeMap::from([(*key, *block)]),
        ..Edits::default()
    };
    let replace = |(key, by): &(usize, Option<usize>)| Edits {
        replaced: BTreeMap::from([(*key, *by)]),
        ..Edits::default()
    };
    [
        found.stmts.iter().map(remove).collect(),
        found.blocks.iter().map(splice).collect(),
        found.values.iter().map(replace).collect(),
    ]
}

/// Applies the edits to the program.
pub fn edited(program: &Program, edits: &Edits) -> Program {
    let mut walk = Walk {
        program: program.clone(),
        edits: edits.clone(),
        found: None,
        blocks: 0,
        exprs: 0,
        gone: BTreeSet::new(),
    };
    walk.program();
    let gone = core::mem::take(&mut walk.gone);
    let mut program = walk.program;
    if !gone.is_empty() {
        let structs = program.clone();
        let without = Without { gone: &gone, program: &structs };
        without.block(&mut program.main);
        program.functions.iter_mut().for_each(|function| without.block(&mut function.body));
        program
            .impls
            .iter_mut()
            .flat_map(|(_, all)| all)
            .for_each(|function| without.block(&mut function.body));
    }
    program
}

/// The simplest value of a type.
pub fn simplest(ty: &Ty, program: &Program) -> Expr {
    let all = |types: &[Ty]| -> Vec<Expr> { types.iter().map(|ty| simplest(ty, program)).collect() };
    match ty {
        Ty::Array(element, len) => {
            Expr::form(ty.clone(), format!("[$a0; {len}]"), vec![simplest(element, program)])
        }
        Ty::Tuple(parts) => {
            let holes: Vec<String> = (0..parts.len()).map(|i| format!("$a{i}")).collect();
            Expr::form(ty.clone(), format!("({},)", holes.join(", ")), all(parts))
        }
        Ty::Struct(number) => {
            let fields = &program.structs[*number].fields;
            let holes: Vec<String> = (0..fields.len()).map(|i| format!("f{i}: $a{i}")).collect();
            Expr::form(ty.clone(), format!("S{number} {{ {} }}", holes.join(", ")), all(fields))
        }
        Ty::Enum(number) => {
            let data = &program.enums[*number].variants[0].data;
            let holes: Vec<String> = (0..data.len()).map(|i| format!("$a{i}")).collect();
            let data_text = if data.is_empty() { String::new() } else { format!("({})", holes.join(", ")) };
            Expr::form(ty.clone(), format!("E{number}::V0{data_text}"), all(data))
        }
        Ty::Option(inner) => Expr::form(ty.clone(), format!("None::<{}>", inner.name()), Vec::new()),
        Ty::Char => Expr::literal(Ty::Char, u128::from(b'a')),
        _ => Expr::literal(ty.clone(), 0),
    }
}

/// The possible edits.
#[derive(Default)]
struct Found {
    stmts: Vec<(usize, usize)>,
    blocks: Vec<((usize, usize), usize)>,
    values: Vec<(usize, Option<usize>)>,
}

/// A walk that finds the possible edits, or applies some.
struct Walk {
    program: Program,
    edits: Edits,
    found: Option<Found>,
    blocks: usize,
    exprs: usize,
    /// Variables with removed declarations.
    gone: BTreeSet<Var>,
}

impl Walk {
    fn program(&mut self) {
        let mut main = core::mem::take(&mut self.program.main);
        self.block(&mut main);
        self.program.main = main;
        let mut functions = core::mem::take(&mut self.program.functions);
        functions.iter_mut().for_each(|function| self.block(&mut function.body));
        self.program.functions = functions;
        let mut impls = core::mem::take(&mut self.program.impls);
        impls.iter_mut().flat_map(|(_, all)| all).for_each(|function| self.block(&mut function.body));
        self.program.impls = impls;
    }

    fn block(&mut self, block: &mut Block) {
        let number = self.blocks;
        self.blocks += 1;
        let mut kept = Vec::new();
        for (at, mut stmt) in core::mem::take(&mut block.stmts).into_iter().enumerate() {
            let key = (number, at);
            if let Some(found) = &mut self.found {
                found.stmts.push(key);
                if let Stmt::Form(form) = &stmt {
                    found.blocks.extend((0..form.blocks.len()).map(|block| (key, block)));
                }
            }
            let (is_removed, spliced) =
                (self.edits.removed.contains(&key), self.edits.spliced.get(&key).copied());
            match &mut stmt {
                Stmt::Let(var, value) => {
                    self.expr(value);
                    if is_removed {
                        self.gone.insert(*var);
                    }
                }
                Stmt::Form(form) => self.form(form),
            }
            match (stmt, spliced) {
                _ if is_removed => {}
                (Stmt::Form(form), Some(inner)) if inner < form.blocks.len() => {
                    self.gone.extend(form.binds);
                    kept.extend(form.blocks.into_iter().nth(inner).unwrap_or_default().stmts);
                }
                (stmt, _) => kept.push(stmt),
            }
        }
        block.stmts = kept;
        if let Some(value) = &mut block.value {
            self.expr(value);
        }
    }

    fn form(&mut self, form: &mut Form) {
        form.args.iter_mut().for_each(|arg| self.expr(arg));
        form.places.iter_mut().for_each(|place| self.place(place));
        form.blocks.iter_mut().for_each(|block| self.block(block));
    }

    fn place(&mut self, place: &mut Place) {
        for step in &mut place.steps {
            if let Step::Index(index, _) = step {
                self.expr(index);
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        let number = self.exprs;
        self.exprs += 1;
        if let Some(found) = &mut self.found {
            match &expr.node {
                Node::Literal(0) => {}
                Node::Form(form) => {
                    let is_simplest = form.text.contains("; $a0]") || form.text.starts_with("None");
                    if !is_simplest || !matches!(form.args.first(), Some(Expr { node: Node::Literal(0), .. }))
                    {
                        found.values.push((number, None));
                    }
                    let same = |(i, arg): (usize, &Expr)| (arg.ty == expr.ty).then_some((number, Some(i)));
                    found.values.extend(form.args.iter().enumerate().filter_map(same));
                }
                _ => found.values.push((number, None)),
            }
        }
        match &mut expr.node {
            Node::Literal(_) => {}
            Node::Place(place) => self.place(place),
            Node::Form(form) => self.form(form),
        }
        match self.edits.replaced.get(&number) {
            None => {}
            Some(None) => *expr = simplest(&expr.ty, &self.program),
            Some(Some(arg)) => {
                if let Node::Form(form) = &mut expr.node {
                    self.gone.extend(form.binds.iter().copied());
                    *expr = form.args.swap_remove(*arg);
                }
            }
        }
    }
}

/// Removes code that names removed variables.
struct Without<'a> {
    gone: &'a BTreeSet<Var>,
    program: &'a Program,
}

impl Without<'_> {
    fn block(&self, block: &mut Block) {
        block.stmts.retain_mut(|stmt| match stmt {
            Stmt::Let(_, value) => {
                self.expr(value);
                true
            }
            Stmt::Form(form) => {
                let is_kept = form.places.iter().all(|place| !self.gone.contains(&place.var));
                self.form(form);
                is_kept
            }
        });
        if let Some(value) = &mut block.value {
            self.expr(value);
        }
    }

    fn form(&self, form: &mut Form) {
        form.args.iter_mut().for_each(|arg| self.expr(arg));
        form.blocks.iter_mut().for_each(|block| self.block(block));
        form.places.iter_mut().for_each(|place| self.place(place));
    }

    fn place(&self, place: &mut Place) {
        for step in &mut place.steps {
            if let Step::Index(index, _) = step {
                self.expr(index);
            }
        }
    }

    fn expr(&self, expr: &mut Expr) {
        let names_gone = match &expr.node {
            Node::Literal(_) => false,
            Node::Place(place) => self.gone.contains(&place.var),
            Node::Form(form) => form.places.iter().any(|place| self.gone.contains(&place.var)),
        };
        if names_gone {
            *expr = simplest(&expr.ty, self.program);
            return;
        }
        match &mut expr.node {
            Node::Literal(_) => {}
            Node::Place(place) => self.place(place),
            Node::Form(form) => self.form(form),
        }
    }
}
