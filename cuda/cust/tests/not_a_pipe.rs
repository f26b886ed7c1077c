//! A pipe in place of the driver's library is refused, instead of waiting for its writer.
//!
//! One test, since the environment and the loaded library belong to the whole process.

#[test]
#[cfg(target_os = "linux")]
fn a_pipe_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, &pipe) };
    // Opening the pipe would wait for its writer, so this thread is one after a while, and the test fails.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(cust::load().map_err(|error| error.to_string())));
    let loaded = receiver.recv_timeout(std::time::Duration::from_secs(10));
    if loaded.is_err() {
        drop(std::fs::OpenOptions::new().write(true).open(&pipe));
    }
    let error = loaded.expect("loading ends").unwrap_err();
    assert!(error.contains("it is not a regular file"), "{error}");
    assert!(error.contains(&pipe.display().to_string()) && error.contains(cust::LIBRARY_VARIABLE), "{error}");
}
