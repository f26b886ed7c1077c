//! Attacks on the safe functions of `cust`: a context that goes before its objects, and a fork.
//!
//! One test, since the environment and the loaded library belong to the whole process.

mod support;

use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::memory::LockedBuffer;
use cust::prelude::*;

const PTX: &str = include_str!("../examples/vecadd.ptx");

#[test]
fn objects_outlive_their_context_and_are_left_alone_after_a_fork() {
    let directory = tempfile::tempdir().unwrap();
    let library = support::build_fake_driver(directory.path());
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, &library) };

    // The fake driver ends the process if it gets an object whose context is gone.
    let context = cust::quick_init().unwrap();
    let stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
    let event = Event::new(EventFlags::DEFAULT).unwrap();
    let module = Module::from_ptx(PTX, &[]).unwrap();
    let (buffer, locked) = ([1u8, 2].as_dbuf().unwrap(), LockedBuffer::new(&3u8, 4).unwrap());
    let shared = [4u32; 2].as_unified_buf().unwrap();
    let again = Context::new(Device::get_device(0).unwrap()).unwrap();
    std::mem::forget(Event::new(EventFlags::DEFAULT).unwrap());
    drop((context, again));
    stream.synchronize().unwrap();
    event.record(&stream).unwrap();
    assert_eq!(buffer.as_host_vec().unwrap(), [1, 2]);
    assert!(module.get_function("vecadd").is_ok());
    assert_eq!((&*locked, &*shared), (&[3; 4][..], &[4; 2][..]));

    // SAFETY: the child calls no function that needs another thread's lock, and ends without exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = [
            stream.synchronize(),
            event.synchronize(),
            buffer.as_host_vec().map(drop),
            module.get_function("vecadd").map(drop),
            [5u8].as_dbuf().map(drop),
            CurrentContext::synchronize(),
            cust::quick_init().map(drop),
        ];
        let all_are = refused.iter().all(|result| *result == Err(CudaError::Forked));
        let text = CudaError::Forked.to_string();
        drop((stream, event, buffer, locked, shared, module));
        let is_right = all_are && text.contains("was started before this process was forked");
        cust::exit_at_once(if is_right { 0 } else { 3 });
    }
    let mut status = 0;
    // SAFETY: the child is this test's, and the out parameter is valid.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's status");
    drop((stream, event, module, locked, shared));
    assert_eq!(buffer.as_host_vec().unwrap(), [1, 2]);
}
