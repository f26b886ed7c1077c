//! Finds sources of a kernel that have changed since its figures were measured.

use std::path::Path;
use std::process::Command;

/// The files among `paths` that differ between `commit` and the checkout in `root`; `None` if git does not have the commit,
/// as in a shallow clone.
pub fn changed(root: &Path, commit: &str, paths: &[&str]) -> Option<Vec<String>> {
    // A commit's name if its sources were not committed.
    let commit = commit.split_whitespace().next()?;
    let is_hash = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash {
        return None;
    }
    let mut git = Command::new("git");
    git.current_dir(root).args(["diff", "--name-only", "--ignore-blank-lines", commit, "--"]).args(paths);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// If there are more files, they are counted instead of named.
const MOST_NAMES: usize = 4;
/// Parts of a path that name a folder of counted files.
const FOLDER_PARTS: usize = 3;

/// The note about them on a page. The file of results has all names.
pub fn note(changed: &[String]) -> String {
    let shown = |paths: &[&str]| -> String {
        let names: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
        names.join(", ")
    };
    let paths: Vec<&str> = changed.iter().map(String::as_str).collect();
    match paths.len() {
        0 => String::new(),
        count if count <= MOST_NAMES => format!(
            "These sources have changed since that commit, so the code of today may be faster or slower: {}.",
            shown(&paths)
        ),
        count => {
            let end = |path: &str| {
                let parts =
                    path.match_indices('/').nth(FOLDER_PARTS - 1).or_else(|| path.rmatch_indices('/').next());
                parts.map(|(end, _)| end)
            };
            let mut folders: Vec<&str> =
                paths.iter().map(|path| end(path).map_or(".", |end| &path[..end])).collect();
            folders.sort_unstable();
            folders.dedup();
            format!(
                "{count} sources in {} have changed since that commit, so the code of today may be faster or slower.",
                shown(&folders)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(root: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(root).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn files_that_changed_since_a_commit_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        git(root, &["init", "--quiet"]);
        write("a.rs", "1");
        write("b.rs", "1");
        git(root, &["add", "."]);
        git(root, &["commit", "--quiet", "--message", "first"]);
        let first = git(root, &["rev-parse", "HEAD"]);
        assert_eq!(changed(root, &first, &["a.rs", "b.rs"]), Some(vec![]));
        write("a.rs", "2");
        write("c.rs", "2");
        let found = changed(root, &first, &["a.rs", "b.rs"]);
        assert_eq!(found, Some(vec!["a.rs".to_owned()]));
        assert!(note(&found.unwrap()).contains("since that commit") && note(&[]).is_empty());
    }

    #[test]
    fn many_files_are_counted_by_folder() {
        let paths = ["a/src/x/1.rs", "a/src/x/2.rs", "a/src/x/y/3.rs", "b/src/z/4.rs", "c.rs"];
        let text = note(&paths.map(str::to_owned));
        assert!(text.starts_with("5 sources in `.`, `a/src/x`, `b/src/z` have changed since"), "{text}");
    }

    #[test]
    fn without_the_commit_or_without_git_nothing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(changed(folder.path(), "0123456789", &["a.rs"]), None);
        assert_eq!(changed(folder.path(), "abc", &["a.rs"]), None);
        git(folder.path(), &["init", "--quiet"]);
        assert_eq!(changed(folder.path(), "0123456789", &["a.rs"]), None);
    }
}
