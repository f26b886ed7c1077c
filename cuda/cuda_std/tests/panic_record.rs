//! The record of a panic, as the host reads it.

use cuda_std::panic_record::PanicRecord;

#[test]
fn a_message_is_read_back() {
    let mut record = PanicRecord::empty();
    record.message[..5].copy_from_slice(b"hello");
    record.message_len = 5;
    record.file[..6].copy_from_slice(b"lib.rs");
    record.file_len = 6;
    assert_eq!((record.message(), record.file()), ("hello".to_owned(), "lib.rs".to_owned()));
}

#[test]
fn an_index_is_worded_as_rust_words_it() {
    let record =
        PanicRecord { kind: PanicRecord::INDEX_OUT_OF_BOUNDS, index: 9, len: 4, ..PanicRecord::empty() };
    assert_eq!(record.message(), "index out of bounds: the len is 4 but the index is 9");
}

#[test]
fn damaged_lengths_and_bytes_are_survived() {
    let mut record = PanicRecord::empty();
    record.message = [0xff; 256];
    record.message_len = u32::MAX;
    record.file_len = 1000;
    assert_eq!(record.message().chars().count(), 256);
    assert_eq!(record.file().len(), 128);
}
