//! Names at the ends of lines, moved apart where they would overlap.

use plotters::prelude::*;

use super::{Canvas, Drawn, Place, TEXT, text, width_of};

/// Pixels from one name to the next.
pub(super) const HEIGHT: i32 = 16;

/// A name and the pixel that it belongs to.
pub(super) struct Name {
    pub words: String,
    pub colour: RGBColor,
    pub is_bold: bool,
    pub end: (i32, i32),
}

/// Pixels for names on the right of a diagram.
pub(super) fn room<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    names.map(|name| width_of(name, TEXT)).max().map_or(12, |width| width as u32 + 34)
}

/// Draws the names in a column at `x`, each as close to the height of its line's end as the others allow.
pub(super) fn draw(area: &Canvas<'_>, mut names: Vec<Name>, x: i32, within: (i32, i32)) -> Drawn {
    names.sort_by_key(|name| name.end.1);
    let wanted: Vec<i32> = names.iter().map(|name| name.end.1).collect();
    for (name, y) in names.iter().zip(apart(&wanted, HEIGHT, within)) {
        let style = name.colour.mix(0.55).stroke_width(1);
        if name.end.0 < x - 30 || (name.end.1 - y).abs() > 3 {
            area.draw(&PathElement::new(
                [(name.end.0 + 5, name.end.1), (x - 14, name.end.1), (x - 3, y)],
                style,
            ))?;
        }
        let place = Place::default().colour(name.colour);
        text(area, &name.words, (x, y), if name.is_bold { place.bold() } else { place })?;
    }
    Ok(())
}

/// Heights at least `distance` apart, in the same order and as close to `wanted` as possible. `wanted` must be ascending.
pub(super) fn apart(wanted: &[i32], distance: i32, (top, bottom): (i32, i32)) -> Vec<i32> {
    // Groups of touching names, each around the mean of its members' wanted heights.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let reach = |group: &(f64, usize)| f64::from(distance) * group.1 as f64 / 2.0;
    for &y in wanted {
        groups.push((f64::from(y), 1));
        while let [.., before, last] = groups[..] {
            if before.0 + reach(&before) <= last.0 - reach(&last) + 1e-9 {
                break;
            }
            let count = before.1 + last.1;
            let middle = (before.0 * before.1 as f64 + last.0 * last.1 as f64) / count as f64;
            groups.truncate(groups.len() - 2);
            groups.push((middle, count));
        }
    }
    let mut heights = Vec::new();
    for group in &groups {
        let first = group.0 - reach(group) + f64::from(distance) / 2.0;
        heights.extend((0..group.1).map(|i| (first + f64::from(distance) * i as f64).round() as i32));
    }
    // Pushes names that leave the diagram back, with those in their way.
    let mut least = top;
    for height in &mut heights {
        *height = (*height).max(least);
        least = *height + distance;
    }
    let mut most = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - distance;
    }
    heights
}
