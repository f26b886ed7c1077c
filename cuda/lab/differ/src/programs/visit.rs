//! Walks over the nodes of a program.

use super::ast::*;

/// Calls `f` for every form in a block, from the outside in.
pub fn forms(block: &Block, f: &mut impl FnMut(&Form)) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(_, value) => forms_of_expr(value, f),
            Stmt::Form(form) => forms_of(form, f),
        }
    }
    if let Some(value) = &block.value {
        forms_of_expr(value, f);
    }
}

fn forms_of(form: &Form, f: &mut impl FnMut(&Form)) {
    f(form);
    form.args.iter().for_each(|arg| forms_of_expr(arg, f));
    form.places.iter().for_each(|place| forms_of_place(place, f));
    form.blocks.iter().for_each(|block| forms(block, f));
}

fn forms_of_expr(expr: &Expr, f: &mut impl FnMut(&Form)) {
    match &expr.node {
        Node::Literal(_) => {}
        Node::Place(place) => forms_of_place(place, f),
        Node::Form(form) => forms_of(form, f),
    }
}

fn forms_of_place(place: &Place, f: &mut impl FnMut(&Form)) {
    for step in &place.steps {
        if let Step::Index(index, _) = step {
            forms_of_expr(index, f);
        }
    }
}
