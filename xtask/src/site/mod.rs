//! `cargo xtask docs`: the documents as a site, by mdBook.

mod pages;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace;

/// The version of mdBook, which the first run compiles into `target/tools`.
const MDBOOK: &str = "0.5.4";

/// The settings of mdBook, the site's style, and the check in a browser.
const FOLDER: &str = "xtask/site";

/// Render docs/ as a site with search, into target/site/book
#[derive(clap::Args)]
pub struct Docs {
    /// Open the site in a browser
    #[arg(long)]
    open: bool,

    /// Check every page in a browser, narrow and wide, light and dark; needs Node.js and npm
    #[arg(long)]
    check: bool,
}

impl Docs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let (folder, tools) = (workspace::target().join("site"), workspace::target().join("tools"));
        let pages = pages::write(workspace::root(), &folder.join("src"))?;
        copy(&["book.toml", "site.css"], &folder)?;
        let mdbook = tools.join("bin/mdbook");
        install(&mdbook, &tools)?;
        let mut build = Command::new(&mdbook);
        build.env("MDBOOK_LOG", "warn").arg("build").arg(&folder).args(self.open.then_some("--open"));
        run(&mut build)?;
        let book = folder.join("book");
        println!("{pages} pages: {}", workspace::shown(&book.join("index.html")));
        if self.check {
            let browser = tools.join("browser");
            copy(&["package.json", "package-lock.json", "check.mjs"], &browser)?;
            run(Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund", "--silent"])
                .current_dir(&browser))?;
            run(Command::new("node").arg(browser.join("check.mjs")).arg(&book))?;
        }
        Ok(())
    }
}

/// Copies files of [`FOLDER`].
fn copy(files: &[&str], to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for file in files {
        let from = workspace::root().join(FOLDER).join(file);
        std::fs::copy(&from, to.join(file)).with_context(|| format!("copying {}", from.display()))?;
    }
    Ok(())
}

/// Installs mdBook at its version, unless it is there.
fn install(mdbook: &Path, tools: &Path) -> anyhow::Result<()> {
    let version = Command::new(mdbook).arg("--version").output();
    if version.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).trim() == format!("mdbook v{MDBOOK}")) {
        return Ok(());
    }
    println!("compiling mdBook {MDBOOK}, once");
    let mut cargo = workspace::cargo();
    cargo.args(["install", "mdbook", "--version", MDBOOK, "--locked", "--quiet", "--root"]).arg(tools);
    run(cargo.args(["--no-default-features", "--features", "search"]))
}

/// Runs a command that prints its own messages.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status}); its message is above");
    Ok(())
}
