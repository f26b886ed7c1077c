//! Tests with a shell in place of a compiler.

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn input_and_output_of_any_size_pass() {
    let input = vec![b'x'; 3 << 20];
    let ended = run(shell("cat; echo said >&2"), input.clone(), LONGEST).unwrap();
    assert!(ended.status.success());
    assert_eq!((ended.stdout, ended.stderr.as_str()), (input, "said\n"));
}

#[test]
fn what_hangs_is_stopped() {
    let start = Instant::now();
    let error = run(shell("exec sleep 60"), Vec::new(), Duration::from_millis(200)).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("did not end") && text.contains(VARIABLE), "{text}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_fails_or_is_missing_says_so() {
    let ended = run(shell("exit 3"), Vec::new(), LONGEST).unwrap();
    assert!(ended.log().contains("said nothing") && ended.log().contains('3'), "{}", ended.log());
    let error = run(Command::new("/nonexistent/compiler"), Vec::new(), LONGEST).err().unwrap();
    assert!(error.to_string().starts_with("starting it"), "{error}");
}

#[test]
fn the_limit_is_of_the_processors_time() {
    let limit = Duration::from_millis(300);
    let waits = run(shell("exec sleep 0.6"), Vec::new(), limit).unwrap();
    assert!(waits.status.success(), "it used no time of the processor");
    let start = Instant::now();
    let error = run(shell("while :; do :; done"), Vec::new(), limit).err().unwrap();
    assert_eq!(error, Stopped::TimedOut(limit));
    assert!(start.elapsed() >= limit);
}

#[test]
fn a_small_module_has_a_shorter_limit_unless_it_is_the_last_try() {
    let seconds = |is_last, kib: usize| limit_at_level(is_last, kib << 10).as_secs();
    let limits = [seconds(false, 1), seconds(false, 40), seconds(false, 4000), seconds(true, 1)];
    assert_eq!(limits, [30, 40, 120, 600]);
}

#[test]
fn a_signal_that_ends_it_is_named() {
    let killed = |script| run(shell(script), Vec::new(), LONGEST).unwrap().killed();
    assert!(killed("kill -SEGV $$").unwrap().starts_with("SIGSEGV"));
    assert!(killed("kill -KILL $$").unwrap().contains("memory runs out"));
    assert_eq!(killed("exit 139"), None);
}

/// Waits for the file in which a script has written a process id.
#[cfg(target_os = "linux")]
fn pid_in(file: &Path) -> u32 {
    for _ in 0..500 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n').and_then(|text| text.parse().ok()) {
            return pid;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no process id in {}", file.display());
}

/// Checks that the process has ended, or does so within five seconds. A zombie has.
#[cfg(target_os = "linux")]
#[track_caller]
fn ends(pid: u32) {
    for _ in 0..250 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X'])) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("process {pid} goes on");
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_tool_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}; wait", file.display());
    let limit = Duration::from_millis(200);
    let error = run(shell(&script), Vec::new(), limit).err().unwrap();
    assert_eq!(error, Stopped::TimedOut(limit));
    ends(pid_in(&file));
}

/// The builder is this test in a process of its own, which is killed.
#[cfg(target_os = "linux")]
#[test]
fn a_tool_ends_with_the_builder() {
    const FILE: &str = "FERROWARP_TEST_PID_FILE";
    if let Some(file) = std::env::var_os(FILE) {
        let script = format!("echo $$ > {}; exec sleep 60", Path::new(&file).display());
        let _ = run(shell(&script), Vec::new(), LONGEST);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut builder = Command::new(std::env::current_exe().unwrap());
    builder.args(["--exact", "process::tests::a_tool_ends_with_the_builder"]).env(FILE, &file);
    let mut builder = builder.stdout(Stdio::null()).spawn().unwrap();
    let pid = pid_in(&file);
    builder.kill().unwrap();
    builder.wait().unwrap();
    ends(pid);
}

#[cfg(unix)]
#[test]
fn a_flood_is_cut() {
    let ended = run(shell("head -c 200000000 /dev/zero >&2"), Vec::new(), LONGEST).unwrap();
    assert!(ended.status.success());
    assert!(ended.stderr.ends_with("\n(cut after 16 MiB)\n"));
    assert!(ended.stderr.len() < 17 << 20, "{}", ended.stderr.len());
    let bounded = |len| run_bounded(shell(&format!("head -c {len} /dev/zero")), Vec::new(), LONGEST, 1000);
    assert_eq!(bounded(1000).unwrap().stdout, [0; 1000]);
    let text = bounded(10_000_000).err().unwrap().to_string();
    assert!(text.starts_with("sh wrote more than the limit of 1000 bytes"), "{text}");
}
