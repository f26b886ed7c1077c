use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::race::{StreamAccess, StreamWork};
use super::*;

fn touch(argument: &'static str, bytes: Range<usize>, is_write: bool) -> Touch {
    Touch { argument, bytes, is_write, work: StreamWork::Launch("k") }
}

fn read(bytes: Range<usize>) -> Touch {
    touch("inp", bytes, false)
}

fn write(bytes: Range<usize>) -> Touch {
    touch("out", bytes, true)
}

/// An order with the streams 0, 1, 2 and 3.
fn order() -> Order {
    let order = Order::default();
    assert!(order.is_plain());
    assert_eq!([order.open(), order.open(), order.open()], [1, 2, 3]);
    assert!(!order.is_plain());
    order
}

fn is_free(order: &Order, stream: u32, touch: Touch) -> bool {
    order.admit(stream, None, &[touch]).is_ok()
}

#[test]
fn unordered_work_races_unless_both_read_or_the_bytes_differ() {
    let cases = [
        (write(0..8), read(4..5), false),
        (read(0..8), write(7..20), false),
        (write(4..8), write(0..5), false),
        (read(0..8), read(0..8), true),
        (write(0..8), write(8..9), true),
        (write(8..9), read(0..8), true),
    ];
    for (first, second, expected) in cases {
        for (before, after) in [(1, 2), (0, 1), (2, 0)] {
            let order = order();
            assert!(is_free(&order, before, first.clone()));
            assert!(is_free(&order, before, second.clone()), "one stream is in order");
            let order = self::order();
            assert!(is_free(&order, before, first.clone()));
            assert_eq!(is_free(&order, after, second.clone()), expected, "{first:?} and {second:?}");
            order.wait(after, &order.stamp(before)).unwrap();
            assert!(is_free(&order, after, second.clone()));
        }
    }
}

#[test]
fn a_race_names_both_sides_and_the_bytes_within_each() {
    let order = order();
    assert!(is_free(&order, 1, write(100..140)));
    let race = order.admit(2, None, &[read(0..4), touch("more", 130..200, false)]).unwrap_err();
    let side = |stream, argument, is_write, bytes| StreamAccess {
        work: StreamWork::Launch("k"),
        stream,
        argument,
        is_write,
        bytes,
    };
    assert_eq!(race.first, side(1, "out", true, 30..40));
    assert_eq!(race.second, side(2, "more", false, 0..10));
}

#[test]
fn refused_and_cancelled_work_leaves_nothing_behind() {
    let order = order();
    assert!(is_free(&order, 1, write(0..8)));
    assert!(order.admit(2, None, &[write(50..60), read(0..1)]).is_err());
    assert!(is_free(&order, 3, write(50..60)), "the refused launch did not run");
    let admitted = order.admit(3, None, &[write(70..80)]).unwrap();
    order.cancel(&admitted);
    assert!(is_free(&order, 2, write(70..80)));
}

#[test]
fn an_event_orders_what_was_before_it_and_nothing_later() {
    let order = order();
    let early = order.stamp(1);
    assert!(is_free(&order, 1, write(0..8)));
    order.wait(2, &early).unwrap();
    assert!(!is_free(&order, 2, read(0..8)));
    let late = order.stamp(1);
    assert!(is_free(&order, 1, write(8..16)));
    order.wait(2, &late).unwrap();
    assert!(is_free(&order, 2, read(0..8)));
    assert!(!is_free(&order, 2, read(0..9)));
}

#[test]
fn order_is_transitive_and_has_a_direction() {
    let order = order();
    assert!(is_free(&order, 1, write(0..8)));
    order.wait(2, &order.stamp(1)).unwrap();
    let through = order.stamp(2);
    assert!(!is_free(&order, 3, write(0..8)));
    order.wait(3, &through).unwrap();
    assert!(is_free(&order, 3, write(0..8)));
    assert!(!is_free(&order, 1, read(0..8)), "1 is before 3, not after it");
    assert!(!is_free(&order, 2, read(0..8)));
}

#[test]
fn what_covers_older_work_stands_for_it() {
    let order = order();
    // 2 reads after 1 has written, then 1 writes after that: work after the last write is after all of them.
    assert!(is_free(&order, 1, write(0..8)));
    order.wait(2, &order.stamp(1)).unwrap();
    assert!(is_free(&order, 2, read(2..4)));
    order.wait(1, &order.stamp(2)).unwrap();
    assert!(is_free(&order, 1, write(0..8)));
    assert!(!is_free(&order, 3, read(3..4)));
    order.wait(3, &order.stamp(1)).unwrap();
    assert!(is_free(&order, 3, write(0..8)));
    // A read does not cover a write: 2 may not read what 3 has written.
    assert!(is_free(&order, 3, read(0..8)));
    assert!(!is_free(&order, 2, read(0..8)));
}

#[test]
fn what_the_host_has_seen_is_forgotten() {
    let order = order();
    for i in 0..1000 {
        assert!(is_free(&order, 1, write(0..64)));
        assert!(is_free(&order, 1, read(64 * (i + 1)..64 * (i + 1) + 32)));
    }
    assert_eq!(order.remembered(), 1001, "each range once");
    order.ended(&order.stamp(2));
    assert_eq!(order.remembered(), 1001);
    order.ended(&order.stamp(1));
    assert_eq!(order.remembered(), 0);
    assert!(is_free(&order, 2, write(0..64)));
    assert!(is_free(&order, 3, write(64..128)));
    order.ended(&order.stamp_all());
    assert_eq!(order.remembered(), 0);
    assert!(is_free(&order, 1, write(0..128)));
    // Without the host: all streams have waited for each other's work.
    for stream in [0, 2, 3] {
        order.wait(stream, &order.stamp(1)).unwrap();
    }
    assert_eq!(order.remembered(), 0);
}

#[test]
fn a_stream_that_goes_has_ended_and_a_new_one_begins_after_the_default_one() {
    let order = order();
    assert!(is_free(&order, 2, write(0..8)));
    assert!(is_free(&order, 0, write(8..16)));
    assert!(!is_free(&order, 1, write(8..16)));
    order.close(2);
    assert!(is_free(&order, 1, write(0..8)));
    assert_eq!(order.open(), 2);
    assert!(is_free(&order, 2, write(8..16)), "queued on the default stream before");
    assert!(!is_free(&order, 2, write(0..8)));
    [1, 2, 3].iter().for_each(|&stream| order.close(stream));
    assert!(order.is_plain());
    assert_eq!(order.remembered(), 0);
}

#[test]
fn a_recording_has_an_order_of_its_own() {
    let order = order();
    assert!(is_free(&order, 1, write(0..8)));
    let outside = order.stamp(1);
    assert!(order.begin_recording() && !order.begin_recording());
    assert!(matches!(order.admit(0, None, &[write(0..8)]), Ok(Admission::Record)), "it does not run now");
    assert!(matches!(order.admit(2, None, &[write(8..9)]), Ok(Admission::Run(_))), "2 is no part of it");
    assert!(matches!(order.wait(0, &outside), Err(Outside::WaitRecorded)));
    order.wait(3, &order.stamp(0)).unwrap();
    assert!(order.is_recording(3) && !order.is_recording(2));
    assert!(matches!(order.admit(3, None, &[read(0..8)]), Ok(Admission::Record)));
    assert!(order.admit(0, None, &[write(0..8)]).is_err(), "3 may still read");
    order.wait(0, &order.stamp(3)).unwrap();
    let inside = order.stamp(0);
    let recorded = order.end_recording().unwrap();
    assert!(matches!(order.wait(2, &inside), Err(Outside::EventRecorded)));
    // As one piece of work, the graph races with the work of 1.
    assert!(order.admit(0, None, &recorded.touches).is_err());
    order.wait(0, &outside).unwrap();
    assert!(order.admit(0, None, &recorded.touches).is_ok());
}

#[test]
fn a_recording_ends_where_it_began_and_holds_launches_alone() {
    let order = order();
    order.begin_recording();
    order.wait(3, &order.stamp(0)).unwrap();
    assert!(matches!(order.end_recording(), Err(Spoiled::Unjoined(3))));
    order.begin_recording();
    order.spoil("freeing");
    order.spoil("later");
    assert!(matches!(order.end_recording(), Err(Spoiled::By("freeing"))));
    order.begin_recording();
    std::thread::scope(|scope| scope.spawn(|| order.spoil("in another thread")).join().unwrap());
    assert!(order.is_in_recorded_work() && order.end_recording().is_ok());
    assert!(order.replay(|| order.is_in_recorded_work() && !order.begin_recording()));
    assert!(!order.is_in_recorded_work());
}

/// The same order by sets: a stream knows the work that its later work comes after.
#[derive(Default)]
struct Model {
    /// All work: its touch, by number.
    work: Vec<(u32, Touch)>,
    knows: BTreeMap<u32, BTreeSet<usize>>,
    ended: BTreeSet<usize>,
}

impl Model {
    fn is_free(&mut self, stream: u32, touch: &Touch) -> bool {
        let known = self.knows.entry(stream).or_default();
        let races = |(number, (_, old)): (usize, &(u32, Touch))| {
            let meet = old.bytes.start < touch.bytes.end && touch.bytes.start < old.bytes.end;
            meet && (old.is_write || touch.is_write)
                && !known.contains(&number)
                && !self.ended.contains(&number)
        };
        if self.work.iter().enumerate().any(races) {
            return false;
        }
        known.insert(self.work.len());
        self.work.push((stream, touch.clone()));
        true
    }

    fn of_all(&self) -> BTreeSet<usize> {
        (0..self.work.len()).collect()
    }
}

#[test]
fn random_work_races_exactly_if_it_is_not_ordered() {
    for seed in 0..300u64 {
        let (order, mut model, mut state) = (order(), Model::default(), seed);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut open = vec![0, 1, 2, 3];
        let mut races = 0;
        for _ in 0..200 {
            let stream = open[random(open.len() as u64) as usize];
            match random(20) {
                0..=10 => {
                    let start = random(30) as usize;
                    let touch = touch("k", start..start + 1 + random(8) as usize, random(3) == 0);
                    let is_free = is_free(&order, stream, touch.clone());
                    assert_eq!(is_free, model.is_free(stream, &touch), "seed {seed}: {touch:?} on {stream}");
                    races += u32::from(!is_free);
                }
                11..=16 => {
                    let other = open[random(open.len() as u64) as usize];
                    order.wait(stream, &order.stamp(other)).unwrap();
                    let known = model.knows.get(&other).cloned().unwrap_or_default();
                    model.knows.entry(stream).or_default().extend(known);
                }
                17 => {
                    order.ended(&order.stamp(stream));
                    model.ended.extend(model.knows.get(&stream).cloned().unwrap_or_default());
                }
                18 if random(4) == 0 => {
                    order.ended(&order.stamp_all());
                    model.ended = model.of_all();
                }
                _ if stream != 0 && open.len() > 2 => {
                    order.close(stream);
                    open.retain(|&other| other != stream);
                    // Closing waits for the stream's work. The next stream of this number begins after the default one.
                    let of_stream = model.knows.remove(&stream).unwrap_or_default();
                    model.ended.extend(of_stream);
                }
                _ => {
                    let number = order.open();
                    open.push(number);
                    let first = model.knows.get(&0).cloned().unwrap_or_default();
                    model.knows.insert(number, first);
                }
            }
            if random(10) == 0 {
                order.remembered();
            }
        }
        assert!(races > 0, "seed {seed}");
    }
}

/// With a search through all earlier work, this takes minutes.
#[test]
fn earlier_work_and_other_streams_cost_later_work_nothing() {
    let order = order();
    for i in 0..200_000 {
        let stream = 1 + i as u32 % 2;
        assert!(is_free(&order, stream, write(8 * i..8 * i + 8)));
        assert!(is_free(&order, stream, read(8 * i..8 * i + 4)));
        if i % 4 == 0 {
            order.wait(3, &order.stamp(stream)).unwrap();
        }
    }
    assert!(!is_free(&order, 0, read(8 * 5..8 * 5 + 1)));
    assert!((4..30_000).all(|number| order.open() == number));
    let own = |number: u32| 2_000_000 + number as usize;
    assert!((4..30_000).all(|number| is_free(&order, number, write(own(number)..own(number) + 1))));
    (4..30_000).for_each(|number| order.close(number));
}
