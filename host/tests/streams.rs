//! Streams of a device, on the CPU: what races is refused in every direction, and what is ordered runs.

use cuda_std::launch::{LaunchConfig, LaunchError, Launcher, RawBuffer};
use cuda_std::{KernelArgs, kernel, thread};
use ferrowarp::Fill;
use ferrowarp::device::{
    Buffer, BufferView, BufferViewMut, DataRace, Device, DeviceError, Stream, StreamWork,
};

const LEN: usize = 64;

/// out = inp + 1
///
/// # Safety
/// `out` holds as many elements as `inp`, and there is a thread for each.
#[kernel]
pub unsafe fn next(out: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        // SAFETY: in bounds, and each thread has an element of its own.
        unsafe { *out.add(i) = inp[i] + 1 };
    }
}

/// The arguments of [`accumulate`].
#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
pub struct Sum {
    total: *mut u32,
    part: *const u32,
    len: usize,
}

/// total += part
///
/// # Safety
/// Both hold `len` elements, and there is a thread for each.
#[kernel]
pub unsafe fn accumulate(args: Sum) {
    let i = thread::index_1d() as usize;
    if i < args.len {
        // SAFETY: in bounds, and each thread has an element of its own.
        unsafe { *args.total.add(i) += *args.part.add(i) };
    }
}

fn config() -> LaunchConfig {
    LaunchConfig::cover(LEN, 32)
}

fn launch(on: &impl Launcher, out: &mut Buffer<u32>, inp: &Buffer<u32>) -> Result<(), DeviceError> {
    // SAFETY: buffers of the same length, and a thread for each element.
    Ok(unsafe { next::launch(on, config(), out, inp) }?)
}

fn race(result: Result<(), DeviceError>) -> DataRace {
    match result {
        Err(DeviceError::Unordered(race)) => *race,
        other => panic!("{other:?}"),
    }
}

/// A device with two streams and three buffers of zeros.
fn two_streams() -> (Device, [Stream; 2], [Buffer<u32>; 3]) {
    let device = Device::cpu();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let buffers = [(); 3].map(|()| device.alloc_zeroed(LEN).unwrap());
    (device, streams, buffers)
}

/// What the second stream does after the first has written `b` from `a`, and which of them writes.
type Second = fn(&Stream, &mut [Buffer<u32>; 3]) -> Result<(), DeviceError>;
const CONFLICTS: [(&str, Second, &str, [bool; 2]); 3] = [
    ("read after write", |on, [_, b, c]| launch(on, c, b), "inp", [true, false]),
    ("write after read", |on, [a, _, c]| launch(on, a, c), "out", [false, true]),
    ("write after write", |on, [_, b, c]| launch(on, b, c), "out", [true, true]),
];

/// What comes between the two streams' work.
type Between = fn(&Device, &[Stream; 2]) -> Result<(), DeviceError>;

#[test]
fn conflicts_are_refused_until_they_are_ordered() {
    let orders: [(&str, Between); 8] = [
        ("an event", |_, [first, second]| second.wait(&first.record()?)),
        ("the stream's end", |_, [first, _]| first.synchronize()),
        ("the device's end", |device, _| device.synchronize()),
        ("the event's end", |_, [first, _]| first.record()?.synchronize()),
        ("an event that was seen", |_, [first, _]| {
            assert!(first.record()?.is_complete()?);
            Ok(())
        }),
        ("the default stream", |device, [first, second]| {
            let middle = device.default_stream();
            middle.wait(&first.record()?)?;
            second.wait(&middle.record()?)
        }),
        ("a third stream", |device, [first, second]| {
            let third = device.stream()?;
            third.wait(&first.record()?)?;
            second.wait(&third.record()?)
        }),
        ("a copy to the host", |device, _| device.alloc_zeroed::<u8>(3)?.to_vec().map(drop)),
    ];
    for (conflict, second_work, argument, [first_writes, second_writes]) in CONFLICTS {
        for (order, between) in orders {
            let (device, [first, second], mut buffers) = two_streams();
            let [a, b, _] = &mut buffers;
            launch(&first, b, a).unwrap();
            let race = race(second_work(&second, &mut buffers));
            assert_eq!(
                (race.first.is_write, race.second.is_write),
                (first_writes, second_writes),
                "{conflict}"
            );
            assert_eq!((race.first.stream, race.second.stream), (first.number(), second.number()));
            assert_eq!((race.second.argument, race.second.bytes.clone()), (argument, 0..4 * LEN));
            assert_eq!(race.second.work, StreamWork::Launch("next"));
            let streams = [first, second];
            between(&device, &streams).unwrap();
            second_work(&streams[1], &mut buffers)
                .unwrap_or_else(|error| panic!("{conflict}, {order}: {error}"));
        }
    }
}

#[test]
fn refused_work_does_not_run() {
    let (_, [first, second], [a, mut b, _]) = two_streams();
    launch(&first, &mut b, &a).unwrap();
    race(launch(&second, &mut b, &a));
    let (mut low, mut high) = b.split_at_mut(LEN / 2).unwrap();
    // SAFETY: halves of the same length.
    let over = unsafe { next::launch(&second, config(), &mut high, low.as_view()) };
    race(over.map_err(DeviceError::from));
    low.copy_from(&[7; LEN / 2]).unwrap();
    assert_eq!(b.to_vec().unwrap()[LEN / 2..], [1; LEN / 2]);
}

#[test]
fn an_event_that_was_recorded_too_early_orders_nothing() {
    let (_, [first, second], [a, mut b, mut c]) = two_streams();
    let early = first.record().unwrap();
    launch(&first, &mut b, &a).unwrap();
    second.wait(&early).unwrap();
    race(launch(&second, &mut c, &b));
    early.synchronize().unwrap();
    race(launch(&second, &mut c, &b));
    // Nor does a wait of the first for the second.
    first.wait(&second.record().unwrap()).unwrap();
    race(launch(&second, &mut c, &b));
    second.wait(&first.record().unwrap()).unwrap();
    launch(&second, &mut c, &b).unwrap();
    assert_eq!(c.to_vec().unwrap(), [2; LEN]);
}

#[test]
fn reads_and_disjoint_views_are_in_nobodys_way() {
    let (_, [first, second], [a, mut b, mut c]) = two_streams();
    launch(&first, &mut b, &a).unwrap();
    launch(&second, &mut c, &a).unwrap();
    fn half(out: BufferViewMut<'_, u32>, inp: BufferView<'_, u32>, on: &Stream) -> Result<(), DeviceError> {
        // SAFETY: `out` has at least as many elements but in a launch that is refused.
        Ok(unsafe { next::launch(on, config(), out, inp) }?)
    }
    let (low, high) = b.split_at_mut(LEN / 2).unwrap();
    first.synchronize().unwrap();
    let inp = a.view(..LEN / 2).unwrap();
    half(low, inp, &first).unwrap();
    half(high, inp, &second).unwrap();
    // One element of the other half.
    let (_, high) = b.split_at_mut(LEN / 2 - 1).unwrap();
    let race = race(half(high, inp, &second));
    assert_eq!((race.first.bytes, race.second.bytes), (4 * (LEN / 2 - 1)..2 * LEN, 0..4));
}

#[test]
fn the_buffers_of_a_struct_of_arguments_are_known() {
    let (_, [first, second], [mut a, mut b, c]) = two_streams();
    let args = SumHost { total: &mut a, part: &c, len: LEN };
    // SAFETY: both have as many elements, and there is a thread for each.
    unsafe { accumulate::launch(&first, config(), args) }.unwrap();
    let args = SumHost { total: &mut b, part: &a, len: LEN };
    // SAFETY: as above.
    let error = unsafe { accumulate::launch(&second, config(), args) }.map_err(DeviceError::from);
    let race = race(error);
    assert_eq!((race.first.argument, race.second.argument), ("total", "part"));
    // A buffer without its borrow is the same memory.
    let raw = RawBuffer::written(&mut a);
    // SAFETY: as above.
    let error = unsafe { next::launch(&second, config(), raw, &c) }.unwrap_err();
    assert!(matches!(DeviceError::from(error), DeviceError::Unordered(_)));
}

#[test]
fn copies_race_as_launches_do() {
    let (device, [copies, kernels], [mut a, mut b, _]) = two_streams();
    let pinned = || device.alloc_pinned::<u32>(LEN).unwrap();
    let mut numbers = pinned();
    numbers.fill(5);
    let upload = copies.upload(numbers, &mut a).unwrap();
    let race = race(launch(&kernels, &mut b, &a));
    assert_eq!((race.first.work, race.first.argument), (StreamWork::Upload, ""));
    kernels.wait(&copies.record().unwrap()).unwrap();
    launch(&kernels, &mut b, &a).unwrap();
    let error = copies.download(&b, pinned()).unwrap_err();
    assert!(
        error.to_string().starts_with("download on stream 1 failed: it would read bytes 0..256"),
        "{error}"
    );
    let error = copies.upload(pinned(), &mut a).unwrap_err();
    assert!(matches!(&error, DeviceError::Unordered(race) if race.first.argument == "inp"), "{error}");
    // To wait for the copy alone is enough for what comes after the copy.
    assert_eq!(*upload.wait().unwrap(), [5; LEN]);
    let down = kernels.download(&b, pinned()).unwrap();
    assert_eq!(*down.wait().unwrap(), [6; LEN]);
    copies.upload(pinned(), &mut b).unwrap().wait().unwrap();
    assert_eq!(b.to_vec().unwrap(), [0; LEN]);
}

#[test]
fn a_race_is_told_with_its_cure() {
    let (_, [first, second], [a, mut b, mut c]) = two_streams();
    launch(&first, &mut b, &a).unwrap();
    let error = launch(&second, &mut c, &b).unwrap_err();
    assert_eq!(
        error.to_string(),
        "launch of next on stream 2 failed: it would read bytes 0..256 of its argument `inp`, which the launch of next on \
         stream 1 may still write, as bytes 0..256 of its argument `out`; record an event on stream 1 after the launch of \
         next and let stream 2 wait for it before the launch of next: `second.wait(&first.record()?)?`"
    );
}

#[test]
fn the_devices_own_launches_are_its_default_streams() {
    let (device, [side, _], [a, mut b, mut c]) = two_streams();
    launch(&device, &mut b, &a).unwrap();
    let race = race(launch(&side, &mut c, &b));
    assert_eq!((race.first.stream, device.default_stream().number()), (0, 0));
    side.wait(&device.default_stream().record().unwrap()).unwrap();
    launch(&side, &mut c, &b).unwrap();
    device.default_stream().wait(&side.record().unwrap()).unwrap();
    launch(&device, &mut b, &a).unwrap();
    // A new stream begins after that.
    launch(&device.stream().unwrap(), &mut b, &a).unwrap();
}

#[test]
fn memory_of_the_host_is_the_callers_affair() {
    let (_, [first, second], [a, ..]) = two_streams();
    for stream in [&first, &second] {
        let mut out = vec![0u32; LEN];
        // SAFETY: as many elements in both.
        unsafe { next::launch(stream, config(), &mut out, &a) }.unwrap();
        assert_eq!(out, [1; LEN]);
    }
}

#[test]
fn a_dropped_stream_has_ended_and_a_freed_buffer_is_forgotten() {
    let (device, [first, second], [a, mut b, mut c]) = two_streams();
    launch(&first, &mut b, &a).unwrap();
    drop(first);
    launch(&second, &mut c, &b).unwrap();
    for _ in 0..100 {
        // The same addresses again and again, on streams in no order.
        let stream = device.stream().unwrap();
        let mut out = device.alloc_zeroed(LEN).unwrap();
        launch(&stream, &mut out, &a).unwrap();
        drop(out);
        let mut out = device.alloc_zeroed(LEN).unwrap();
        launch(&second, &mut out, &a).unwrap();
    }
}

#[test]
fn threads_may_share_the_streams() {
    let (device, streams, [a, ..]) = two_streams();
    std::thread::scope(|scope| {
        for stream in &streams {
            let (a, device) = (&a, &device);
            scope.spawn(move || {
                for _ in 0..50 {
                    let mut out = device.alloc_zeroed(LEN).unwrap();
                    launch(stream, &mut out, a).unwrap();
                    assert_eq!(out.to_vec().unwrap(), [1; LEN]);
                }
            });
        }
    });
}

#[test]
fn what_belongs_to_another_device_is_refused() {
    let (device, [stream, _], [mut a, ..]) = two_streams();
    let other = Device::cpu();
    let event = other.default_stream().record().unwrap();
    let error = stream.wait(&event).unwrap_err();
    assert!(matches!(&error, DeviceError::OtherDevice { action: "waiting for an event", .. }), "{error}");
    let ours = stream.record().unwrap();
    assert!(matches!(ours.elapsed_since(&event), Err(DeviceError::OtherDevice { .. })));
    let error = stream.upload(other.alloc_pinned(LEN).unwrap(), &mut a).unwrap_err();
    assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
    let mut graph = device.record((), |_, ()| Ok::<_, LaunchError>(())).unwrap();
    let error = graph.launch_on(&other.default_stream()).unwrap_err();
    assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
    // A launch that does not fit is refused for that.
    // SAFETY: the launch is refused.
    let error = unsafe { next::launch(&stream, LaunchConfig::new(0, 32), &mut a, &[0; 1]) }.unwrap_err();
    assert!(matches!(error, LaunchError::Empty { .. }), "{error}");
}

#[test]
fn a_launch_on_a_stream_outside_of_the_recording_is_refused() {
    let device = Device::cpu();
    let side = device.stream().unwrap();
    let state = (device.upload(&[0u32; LEN]).unwrap(), device.upload(&[1u32; LEN]).unwrap());
    let refused = device.record(state, move |stream, (out, inp): &mut (Buffer<u32>, Buffer<u32>)| {
        launch(stream, out, inp)?;
        launch(&side, out, inp)
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("a launch on a stream that waits for no event of the recording"), "{error}");

    // An error that the work ignores keeps it from becoming a graph.
    let side = device.stream().unwrap();
    let state = (device.upload(&[0u32; LEN]).unwrap(), device.upload(&[1u32; LEN]).unwrap());
    let refused = device.record(state, move |stream, (out, inp): &mut (Buffer<u32>, Buffer<u32>)| {
        let _ = launch(&side, out, inp);
        launch(stream, out, inp)
    });
    assert!(matches!(refused, Err(DeviceError::NotRecordable { .. })), "{refused:?}");

    // A stream that joins the recording is part of it, and runs at each launch of the graph alone.
    let side = device.stream().unwrap();
    let state = (device.upload(&[0u32; LEN]).unwrap(), device.upload(&[1u32; LEN]).unwrap());
    let work = move |stream: &Stream, (out, inp): &mut (Buffer<u32>, Buffer<u32>)| {
        side.wait(&stream.record()?)?;
        launch(&side, out, inp)?;
        stream.wait(&side.record()?)
    };
    let mut graph = device.record(state, work).unwrap();
    assert_eq!(graph.state().0.to_vec().unwrap(), [0; LEN]);
    graph.launch().unwrap();
    assert_eq!(graph.state().0.to_vec().unwrap(), [2; LEN]);
}

/// On a GPU it would be done once, when the graph is made.
#[test]
fn another_device_does_nothing_while_this_one_is_recorded() {
    let (device, other) = (Device::cpu(), Device::cpu());
    type Attempt = fn(&Device) -> Result<(), ferrowarp::Error>;
    let attempts: [Attempt; 4] = [
        |other| Fill::new(7.0).run::<f32>(other, [1]).map(drop),
        |other| Fill::new(7.0).run::<f32>(&other.default_stream(), [1]).map(drop),
        |other| Ok(other.upload(&[1.0f32]).map(drop)?),
        |other| Ok(other.record((), |_, ()| Ok::<(), DeviceError>(())).map(drop)?),
    ];
    for attempt in attempts {
        let of_work = other.clone();
        let refused = device.record((), move |_, ()| attempt(&of_work));
        assert!(refused.is_err());
        attempt(&other).unwrap();
    }
}

#[test]
fn every_operation_runs_on_every_stream() {
    ferrowarp_cases::queued::check(&Device::cpu()).unwrap();
}

#[test]
fn copies_between_buffers_are_ordered_and_recorded() {
    use ferrowarp::device::Queue as _;

    let device = Device::cpu();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let from = device.upload(&[1u32, 2, 3]).unwrap();
    let mut to = device.alloc_zeroed::<u32>(4).unwrap();
    first.copy(to.view_mut(1..).unwrap(), &from).unwrap();
    let refused = second.copy(to.view_mut(..3).unwrap(), &from).unwrap_err().to_string();
    assert!(refused.contains("a copy between buffers"), "{refused}");
    let refused = first.copy(&mut to, &from).unwrap_err().to_string();
    assert!(refused.contains('3') && refused.contains('4'), "{refused}");
    let others = Device::cpu().upload(&[7u32; 4]).unwrap();
    device.copy(&mut to, &others).unwrap_err();
    second.wait(&first.record().unwrap()).unwrap();
    second.copy(to.view_mut(..3).unwrap(), &from).unwrap();
    assert_eq!(to.to_vec().unwrap(), [1, 2, 3, 3]);
    let mut graph = device
        .record((from, to), |stream, (from, to): &mut (Buffer<u32>, Buffer<u32>)| {
            stream.copy(to.view_mut(1..)?, &*from)
        })
        .unwrap();
    assert_eq!(graph.state().1.to_vec().unwrap(), [1, 2, 3, 3]);
    graph.launch().unwrap();
    assert_eq!(graph.state().1.to_vec().unwrap(), [1, 1, 2, 3]);
}
