//! Runs one of the kernels with a bug, `planted-bugs NAME`, on threads of the operating system, for a tool that watches
//! them; with `--coroutines` as launches run by default. Without a name it prints all names. Exits with 1 on a fault.

use std::process::ExitCode;

use cuda_std::simt::{Executor, Scheduler};
use planted_bugs::{BUGS, run_sound};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = arguments.first() else {
        BUGS.iter().for_each(|bug| println!("{}\t{}", bug.name, bug.what));
        return ExitCode::SUCCESS;
    };
    let coroutines = arguments.iter().any(|argument| argument == "--coroutines");
    let scheduler = if coroutines { Scheduler::Coroutines } else { Scheduler::Threads };
    let on = Executor::new().with_scheduler(scheduler);
    let result = match BUGS.iter().find(|bug| bug.name == name) {
        Some(bug) => bug.run(&on),
        None if name == "none" => run_sound(&on),
        None => {
            eprintln!("error: no bug is called `{name}`; run this without a name for a list");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
