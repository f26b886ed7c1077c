//! Compares.

use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (ptx, cases) = (PathBuf::from(args.next().unwrap()), PathBuf::from(args.next().unwrap()));
    let only = args.next();
    let module = differ::emulate::module(&std::fs::read_to_string(ptx)?)?;
    let mut cases = differ::cases::read(&std::fs::read(cases)?)?;
    if let Some(only) = only {
        cases.retain(|case| case.kernel.contains(&only));
    }
    let known: Vec<String> = module.kernels().map(str::to_owned).collect();
    cases.retain(|case| known.contains(&case.kernel));
    let start = std::time::Instant::now();
    let found = differ::emulate::compare(module, &cases, 2);
    for one in found.chunk_by(|a, b| a.kernel == b.kernel) {
        println!("{} differ: {}", one.len(), one[0].to_string().chars().take(600).collect::<String>());
    }
    println!("{} of {} cases differ, {:?}", found.len(), cases.len(), start.elapsed());
    Ok(())
}
