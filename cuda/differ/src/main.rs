//! Compares.
use std::path::Path;
fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (first, count) = (args.next().unwrap().parse::<u64>()?, args.next().unwrap().parse::<u64>()?);
    let programs: Vec<_> = (first..first + count).map(differ::programs::generate).collect();
    let refs: Vec<_> = programs.iter().collect();
    let folder = differ::programs::folder::Folder::write(Path::new(&args.next().unwrap()), Path::new("/work/wt-differ"), &refs)?;
    let inputs: Vec<u8> = (0..differ::programs::folder::INPUTS).flat_map(differ::programs::folder::input).collect();
    std::fs::write(folder.path.join("inputs"), inputs)?;
    Ok(())
}
