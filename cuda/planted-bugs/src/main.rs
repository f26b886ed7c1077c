//! Runs one of the kernels with a bug, `planted-bugs NAME`, on threads of the operating system, for a tool that watches
//! them; with `--coroutines` as launches run by default. Without a name it prints all names. Exits with 1 on a fault.

use std::process::ExitCode;

use cuda_std::simt::{Executor, Scheduler};
use planted_bugs::{BUGS, SOUND};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = arguments.first() else {
        BUGS.iter().for_each(|bug| println!("{}\t{}", bug.name, bug.what));
        return ExitCode::SUCCESS;
    };
    let Some(bug) = BUGS.iter().chain([&SOUND]).find(|bug| bug.name == name) else {
        eprintln!("error: no bug is called `{name}`; run this without a name for a list");
        return ExitCode::from(2);
    };
    let coroutines = arguments.iter().any(|argument| argument == "--coroutines");
    let scheduler = if coroutines { Scheduler::Coroutines } else { Scheduler::Threads };
    match (bug.run)(&Executor::new().with_scheduler(scheduler)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
