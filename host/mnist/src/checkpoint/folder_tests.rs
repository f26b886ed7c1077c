//! Tests which file is the newest, which ones stay, and which folders cannot be used.

use super::*;
use crate::checkpoint::file_format;
use crate::checkpoint::snapshot::tests::sample;
use ferrowarp_report::EpochRecord;

/// The state after `steps` steps of a run with 3 steps per epoch.
fn after(steps: u64) -> Snapshot {
    let mut snapshot = sample();
    let record = snapshot.records[0].clone();
    let epochs = (steps / 3) as u32;
    snapshot.records = (1..=epochs).map(|epoch| EpochRecord { epoch: 4 + epoch, ..record.clone() }).collect();
    snapshot.training.epochs = 4 + epochs;
    snapshot.progress.samples = 4 * (steps % 3) as usize;
    snapshot.progress.correct = 0;
    snapshot.ahead = snapshot.ahead.filter(|_| !steps.is_multiple_of(3));
    assert_eq!(snapshot.steps(), steps);
    snapshot
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_last_ones_are_kept_and_the_newest_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    Folder::check(&dir, None).unwrap();
    assert!(!dir.exists(), "a check makes nothing");
    let mut folder = Folder::open(&dir, 2, None).unwrap();
    assert_eq!(folder.newest(), None);
    for steps in [1, 2, 5, 6] {
        folder.write(&after(steps)).unwrap();
        assert_eq!(newest(&dir).unwrap().snapshot, after(steps));
    }
    assert_eq!(names(&dir), ["step-0000000005.checkpoint", "step-0000000006.checkpoint"]);
    assert_eq!(folder.newest(), Some(&*dir.join("step-0000000006.checkpoint")));
}

#[test]
fn a_damaged_newer_one_is_reported_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut folder = Folder::open(dir, 2, None).unwrap();
    for steps in [1, 2, 3] {
        folder.write(&after(steps)).unwrap();
    }
    drop(folder);
    let damaged = dir.join(file_name(3));
    fs::write(&damaged, &fs::read(&damaged).unwrap()[..60]).unwrap();
    fs::write(dir.join(file_name(4)), b"").unwrap();

    let found = newest(dir).unwrap();
    assert_eq!((&found.snapshot, &found.path), (&after(2), &dir.join(file_name(2))));
    assert_eq!(found.skipped.len(), 2);
    let (empty, cut) = (&found.skipped[0], &found.skipped[1]);
    assert!(empty.contains("step-0000000004.checkpoint cannot be used: it is empty"), "{empty}");
    assert!(cut.contains("step-0000000003.checkpoint cannot be used: it is truncated: 60 bytes of"), "{cut}");

    // The run resumes from step 2: its third step replaces the damaged file, and the other damaged one does not cause intact
    // files to be removed.
    let mut folder = Folder::open(dir, 2, Some(&found)).unwrap();
    folder.write(&after(3)).unwrap();
    assert_eq!(names(dir), [2, 3, 4].map(file_name));
    folder.write(&after(4)).unwrap();
    folder.write(&after(5)).unwrap();
    assert_eq!(names(dir), [4, 5].map(file_name));
    assert_eq!(newest(dir).unwrap().skipped, [] as [&str; 0]);
}

#[test]
fn a_run_killed_before_the_removal_makes_up_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut folder = Folder::open(dir, 9, None).unwrap();
    for steps in [1, 2, 3, 4] {
        folder.write(&after(steps)).unwrap();
    }
    drop(folder);
    let found = newest(dir).unwrap();
    Folder::open(dir, 2, Some(&found)).unwrap();
    assert_eq!(names(dir), [3, 4].map(file_name));
}

#[test]
fn nothing_intact_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let error = newest(dir).unwrap_err();
    assert!(matches!(&error, CheckpointError::NothingToResume { .. }), "{error}");
    let error = newest(&dir.join("missing")).unwrap_err();
    assert!(matches!(&error, CheckpointError::Folder { .. }), "{error}");
    fs::write(dir.join(file_name(1)), b"x").unwrap();
    fs::write(dir.join(file_name(2)), b"").unwrap();
    let error = newest(dir).unwrap_err();
    assert!(matches!(&error, CheckpointError::NoneIntact { count: 2, .. }), "{error}");
    assert!(
        in_one_line(&error).ends_with("step-0000000002.checkpoint cannot be used: it is empty"),
        "{error}"
    );
}

#[test]
fn a_newer_version_is_an_error_and_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    Folder::open(dir, 2, None).unwrap().write(&after(1)).unwrap();
    fs::write(dir.join(file_name(2)), file_format::seal_as(7, b"of the future")).unwrap();
    let error = in_one_line(&newest(dir).unwrap_err());
    assert!(error.contains("step-0000000002.checkpoint") && error.contains("has version 7"), "{error}");
}

#[test]
fn a_new_run_does_not_mix_with_an_old_one() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a");
    let mut folder = Folder::open(&dir, 2, None).unwrap();
    folder.write(&after(1)).unwrap();
    drop(folder);
    let occupied = |result: Result<(), CheckpointError>| {
        let error = result.unwrap_err();
        assert!(matches!(&error, CheckpointError::Occupied { .. }), "{error}");
    };
    occupied(Folder::check(&dir, None));
    occupied(Folder::open(&dir, 2, None).map(drop));
    let found = newest(&dir).unwrap();
    Folder::check(&parent.path().join("a/../a"), Some(&found)).unwrap();
    // The run does not resume from this other folder with checkpoints.
    let other = parent.path().join("b");
    Folder::open(&other, 2, None).unwrap().write(&after(2)).unwrap();
    occupied(Folder::check(&other, Some(&found)));
}

#[cfg(unix)]
#[test]
fn one_folder_is_for_one_run_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = Folder::open(dir.path(), 2, None).unwrap();
    let error = Folder::open(dir.path(), 2, None).unwrap_err();
    assert!(matches!(&error, CheckpointError::InUse { .. }), "{error}");
    drop(first);
    Folder::open(dir.path(), 2, None).unwrap();
}

#[test]
fn what_a_killed_run_left_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        ".checkpoint-incomplete-abcDEF123456",
        ".checkpoint-backup",
        "notes",
        ".hidden",
        "step-1.checkpoint",
        "step-0000000001.checkpoint.bak",
    ] {
        fs::write(dir.path().join(name), b"x").unwrap();
    }
    let mut folder = Folder::open(dir.path(), 1, None).unwrap();
    folder.write(&after(1)).unwrap();
    folder.write(&after(2)).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            ".checkpoint-backup",
            ".hidden",
            "notes",
            "step-0000000001.checkpoint.bak",
            "step-0000000002.checkpoint",
            "step-1.checkpoint"
        ]
    );
}

#[test]
fn a_file_is_no_folder() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, b"x").unwrap();
    for dir in [file.clone(), file.join("below")] {
        let error = Folder::check(&dir, None).unwrap_err();
        assert!(matches!(&error, CheckpointError::Folder { .. }), "{error}");
        assert!(Folder::open(&dir, 1, None).is_err());
    }
    assert!(matches!(newest(&file), Err(CheckpointError::Folder { .. })));
}

#[test]
fn a_failed_write_leaves_the_older_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(dir.path(), 1, None).unwrap();
    folder.write(&after(1)).unwrap();
    // A folder in place of the file makes the last step of the write, the rename, fail.
    fs::create_dir(dir.path().join(file_name(2))).unwrap();
    let error = folder.write(&after(2)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("could not write the checkpoint") && text.contains(&file_name(2)), "{text}");
    assert!(
        text.contains(&format!("the last good checkpoint is {}", dir.path().join(file_name(1)).display()))
    );
    fs::remove_dir(dir.path().join(file_name(2))).unwrap();
    assert_eq!(names(dir.path()), [file_name(1)]);
    assert_eq!(newest(dir.path()).unwrap().snapshot, after(1));
}
