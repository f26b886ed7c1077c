//! `.file` and `.loc`: source locations of instructions (PTX ISA, "Debugging Directives").

use std::collections::HashMap;

use cuda_std::testing::counts::SourceLine;

use super::cursor::Cursor;
use crate::lex::Kind;

/// The source locations that a module names.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    files: HashMap<u64, String>,
    places: Vec<Place>,
    /// The latest index of each file, line and column.
    latest: HashMap<[u64; 3], usize>,
}

#[derive(Debug)]
struct Place {
    at: [u64; 3],
    /// The location it was inlined into.
    inlined_at: Option<usize>,
}

impl Lines {
    /// Reads the rest of a `.file`.
    pub(super) fn file(&mut self, cursor: &mut Cursor<'_, '_>) {
        if let [Kind::Int(number), Kind::Text(name), ..] = rest_of_line(cursor)[..] {
            self.files.insert(number, name.to_owned());
        }
    }

    /// Reads the rest of a `.loc`, and returns its index.
    pub(super) fn loc(&mut self, cursor: &mut Cursor<'_, '_>) -> Option<usize> {
        let rest = rest_of_line(cursor);
        let place = |at: &[Kind<'_>]| match *at {
            [Kind::Int(file), Kind::Int(line), Kind::Int(column), ..] => Some([file, line, column]),
            _ => None,
        };
        let at = place(&rest)?;
        let inlined = rest.iter().position(|kind| *kind == Kind::Word("inlined_at"));
        // An earlier `.loc` has defined the location.
        let inlined_at = inlined.and_then(|word| self.latest.get(&place(&rest[word + 1..])?).copied());
        self.places.push(Place { at, inlined_at });
        self.latest.insert(at, self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    /// The line of a `.loc`, then the line it was inlined into, and so on.
    pub(crate) fn source(&self, number: usize) -> Vec<SourceLine> {
        let places =
            core::iter::successors(self.places.get(number), |place| self.places.get(place.inlined_at?));
        let line = |&Place { at: [file, line, _], .. }: &Place| {
            let file = self.files.get(&file).cloned()?;
            (line > 0).then_some(SourceLine { file, line: line as u32 })
        };
        places.filter_map(line).collect()
    }
}

fn rest_of_line<'a>(cursor: &mut Cursor<'_, 'a>) -> Vec<Kind<'a>> {
    let line = cursor.line();
    cursor.next();
    let mut rest = Vec::new();
    while cursor.peek().is_some() && cursor.line() == line {
        rest.extend(cursor.next());
    }
    rest
}
