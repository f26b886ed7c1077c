//! The gallery's index, `docs/gallery/README.md`, whose first table has the lessons in reading order.

use std::path::Path;

use anyhow::Context;

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The lessons in reading order.
///
/// # Errors
/// The index cannot be read.
pub fn lessons(pages: &Path) -> anyhow::Result<Vec<String>> {
    let index = read(&pages.join("README.md"))?;
    let link = |line: &str| {
        let (_, link) = line.strip_prefix("| [")?.split_once("](")?;
        Some(link.split_once(".md)")?.0.to_owned())
    };
    Ok(index.lines().filter_map(link).collect())
}

/// The title of a lesson's page.
///
/// # Errors
/// There is no page.
pub fn title(pages: &Path, lesson: &str) -> anyhow::Result<String> {
    let page = read(&pages.join(format!("{lesson}.md")))?;
    Ok(page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(lesson).to_owned())
}

/// The further lessons on a lesson's page, whose sections have their names, each with the heading above it.
///
/// # Errors
/// There is no page.
pub fn further(pages: &Path, lesson: &str) -> anyhow::Result<Vec<(String, String)>> {
    let page = read(&pages.join(format!("{lesson}.md")))?;
    let mut heading = "";
    let mut further = Vec::new();
    for line in page.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let name = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        if let Some(name) = name.filter(|name| pages.join(format!("{name}.toml")).is_file()) {
            further.push((name.to_owned(), heading.to_owned()));
        }
    }
    Ok(further)
}

/// A lesson's position among the others: a line with links to its neighbours and to the glossary.
///
/// # Errors
/// The index lacks the lesson, or a page is missing.
pub fn path(pages: &Path, lesson: &str) -> anyhow::Result<String> {
    let all = lessons(pages)?;
    let place = all.iter().position(|name| name == lesson);
    let place = place.with_context(|| format!("docs/gallery/README.md has no row for {lesson}"))?;
    let link = |name: &String| anyhow::Ok(format!("[{}]({name}.md)", title(pages, name)?));
    let mut parts = vec![format!("Lesson {} of {} of [the gallery](README.md)", place + 1, all.len())];
    if let Some(before) = place.checked_sub(1) {
        parts.push(format!("before: {}", link(&all[before])?));
    }
    if let Some(next) = all.get(place + 1) {
        parts.push(format!("next: {}", link(next)?));
    }
    parts.push("[words](../learn/glossary.md)".to_owned());
    Ok(parts.join(" · ") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_index_has_every_page_and_its_title() {
        let pages = workspace::root().join("docs/gallery");
        let mut listed = lessons(&pages).unwrap();
        let index = read(&pages.join("README.md")).unwrap();
        for lesson in &listed {
            assert!(
                index.contains(&format!("| [{}]({lesson}.md) |", title(&pages, lesson).unwrap())),
                "{lesson}"
            );
        }
        let files = pages.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut there: Vec<String> =
            files.filter_map(|name| Some(name.strip_suffix(".md")?.to_owned())).collect();
        there.retain(|name| name != "README");
        listed.sort();
        there.sort();
        assert_eq!(listed, there);
    }

    #[test]
    fn every_lesson_has_exercises_with_a_command_and_an_answer() {
        let pages = workspace::root().join("docs/gallery");
        for lesson in lessons(&pages).unwrap() {
            let page = read(&pages.join(format!("{lesson}.md"))).unwrap();
            let exercises = page.split_once("\n## Exercises\n").map_or("", |(_, exercises)| exercises);
            let count = (1..).take_while(|n| exercises.contains(&format!("\n{n}. "))).count();
            assert!((1..=3).contains(&count), "{lesson} has {count} exercises");
            let commands = exercises.matches("```console\n").count();
            let answers = exercises.matches("<summary>What to expect</summary>").count();
            assert!(commands <= count && answers == count, "{lesson}");
        }
    }
}
