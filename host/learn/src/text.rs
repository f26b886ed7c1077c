//! The texts of the puzzles, which are comments: of the file with the hole, and the hints above its answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::workspace;

/// What a puzzle's files say.
pub struct Text {
    /// Its number.
    pub number: u32,
    /// The kernel's name.
    pub name: String,
    /// Its chapter, such as `01-kernels`.
    pub chapter: String,
    /// What the kernel does, in a line.
    pub line: String,
    /// The task.
    pub task: String,
    /// The file with the hole, as it was.
    pub hole: String,
    /// The name of its file.
    pub file: String,
}

/// The folder of the puzzles' crate, and a folder in its sources.
fn source(folder: &str) -> PathBuf {
    workspace::root().join("gpu-kernels/puzzles/src").join(folder)
}

/// All puzzles, by number.
///
/// # Errors
/// A file cannot be read, or does not begin like a puzzle.
pub fn all() -> anyhow::Result<Vec<Text>> {
    let folder = source("holes");
    let mut files = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("reading {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        files.extend(Some(name).filter(|name| name.starts_with('p') && name.ends_with(".rs")));
    }
    files.sort();
    files.into_iter().map(|file| read(&folder, file)).collect()
}

fn read(folder: &Path, file: String) -> anyhow::Result<Text> {
    let path = folder.join(&file);
    let hole = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let comment = hole.lines().map_while(|line| line.strip_prefix("//"));
    let comment: Vec<&str> = comment.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let first = || {
        let (number, rest) = comment.first()?.strip_prefix("Puzzle ")?.split_once(", ")?;
        let (name, rest) = rest.split_once(" (")?;
        let (chapter, line) = rest.split_once("): ")?;
        Some((number.parse().ok()?, name.to_owned(), chapter.to_owned(), line.to_owned()))
    };
    let (number, name, chapter, line) = first().with_context(|| {
        format!("{} must begin with `// Puzzle 01, NAME (CHAPTER): LINE`", path.display())
    })?;
    ensure!(file == format!("p{number:02}_{name}.rs"), "{file} has puzzle {number}, {name}");
    Ok(Text { number, name, chapter, line, task: comment[1..].join("\n").trim().to_owned(), hole, file })
}

impl Text {
    /// The file that the reader edits.
    pub fn mine(&self) -> PathBuf {
        source("mine").join(&self.file)
    }

    /// The reader's file, which is written if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn read_mine(&self) -> anyhow::Result<String> {
        let path = self.mine();
        if !path.exists() {
            self.reset()?;
        }
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        String::from_utf8(bytes).with_context(|| {
            format!("{} is not UTF-8; save it as UTF-8, or `reset` the puzzle", workspace::shown(&path))
        })
    }

    /// Gives the reader's file back as it was. Returns where the old one is kept, if it was another.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn reset(&self) -> anyhow::Result<Option<PathBuf>> {
        let (path, before) = (self.mine(), self.mine().with_extension("rs.before"));
        let is_edited = path.exists() && !std::fs::read(&path).is_ok_and(|old| old == self.hole.as_bytes());
        if is_edited {
            std::fs::rename(&path, &before)
                .with_context(|| format!("renaming {} to {}", path.display(), before.display()))?;
        }
        std::fs::create_dir_all(source("mine")).context("creating the folder of your files")?;
        std::fs::write(self.mine(), &self.hole)
            .with_context(|| format!("writing {}", self.mine().display()))?;
        Ok(is_edited.then_some(before))
    }

    /// Makes this puzzle the one that the feature `mine` compiles.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn select(&self) -> anyhow::Result<()> {
        let (path, text) = (source("mine").join("current.rs"), format!("include!({:?});\n", self.file));
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The hints, and at the end the solution.
    ///
    /// # Errors
    /// The file of the answers cannot be read.
    pub fn hints(&self) -> anyhow::Result<Vec<String>> {
        let path = source("answers").join(&self.file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let comment: Vec<&str> =
            text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim).collect();
        let mut hints: Vec<String> = Vec::new();
        for line in comment {
            match line.strip_prefix("Hint: ") {
                Some(hint) => hints.push(hint.to_owned()),
                None => hints.iter_mut().last().into_iter().for_each(|hint| {
                    let _ = write!(hint, "\n{line}");
                }),
            }
        }
        let from = text.find("#[kernel").unwrap_or(0);
        let solution = &text[from..];
        // Up to the next kernel and the comment above it.
        let end = solution[1..].find("\n\n// Wrong").map_or(solution.len(), |end| end + 1);
        hints.push(format!("A solution:\n\n{}", solution[..end].replace("_solution", "").trim_end()));
        Ok(hints)
    }

    /// The declaration of the kernel in the file with the hole.
    pub fn declaration(&self) -> &str {
        let declaration = self.hole.find("#[kernel").map_or("", |from| &self.hole[from..]);
        declaration.split('{').next().unwrap_or_default().trim_end()
    }

    /// The kernel's name and parameters, without spaces, in a file with it.
    pub fn signature(text: &str, name: &str) -> Option<String> {
        let (_, rest) = text.split_once(&format!("fn {name}("))?;
        let parameters = rest.split_once('{')?.0;
        Some(parameters.split_whitespace().collect::<String>().replace(",)", ")"))
    }
}

/// The block of a page: the puzzles of a chapter, or all.
fn block(texts: &[Text], chapter: &str) -> String {
    if !texts.iter().any(|text| text.chapter.starts_with(chapter)) {
        return "`cargo xtask learn predict` asks for numbers that the emulator counts, and judges your prediction.\n".to_owned();
    }
    let mut block = String::from("| puzzle | what the kernel does | judge it |\n| --- | --- | --- |\n");
    for Text { number, name, line, .. } in texts.iter().filter(|text| text.chapter.starts_with(chapter)) {
        let _ = writeln!(block, "| {number:02} {name} | {line} | `cargo xtask learn check {number}` |");
    }
    block
}

/// The page with its blocks `<!-- puzzles CHAPTER -->` written again; without a chapter they have all puzzles.
pub fn page(texts: &[Text], page: &str) -> String {
    const END: &str = "<!-- /puzzles -->";
    let mut parts = page.split("<!-- puzzles");
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let whole = part.split_once("-->").zip(part.split_once(END));
        let Some(((chapter, _), (_, rest))) = whole else {
            written = written + "<!-- puzzles" + part;
            continue;
        };
        let table = block(texts, chapter.trim());
        let _ = write!(written, "<!-- puzzles{chapter}-->\n{table}{END}{rest}");
    }
    written
}

/// The pages of docs/learn.
///
/// # Errors
/// The folder cannot be read.
pub fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let folder = workspace::root().join("docs/learn").read_dir().context("reading docs/learn")?;
    let paths = folder.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "md")).collect())
}
