//! heapless: vectors, maps and heaps of a fixed capacity.

use ::heapless::binary_heap::Min;
use ::heapless::{BinaryHeap, Deque, FnvIndexMap, String, Vec};

use super::out::Out;

pub fn vec(input: &[u8], number: u32, output: &mut [u8]) {
    let mut all: Vec<u8, 33> = Vec::new();
    let mut queue: Deque<u32, 9> = Deque::new();
    for &byte in input {
        match byte.wrapping_mul(5).wrapping_add(number as u8) % 6 {
            0 => drop(all.insert(usize::from(byte) % (all.len() + 1), byte)),
            1 => drop(queue.pop_front().map(|value| all.push(value as u8))),
            2 => all.truncate(usize::from(byte) % 40),
            3 => drop(queue.push_back(u32::from(byte) << 4)),
            4 => drop(queue.push_front(u32::from(byte))),
            _ => drop(all.extend_from_slice(&[byte, 1, 2][..usize::from(byte % 4).min(3)])),
        }
    }
    let mut text: String<20> = String::new();
    let _ = text.push_str("é€");
    let _ = text.push(char::from(b'a' + (number % 26) as u8));
    let mut out = Out::new(output);
    out.bytes(&[all.len() as u8, queue.len() as u8]);
    out.bytes(text.as_bytes());
    out.bytes(&all);
    queue.iter().for_each(|value| out.bytes(&value.to_le_bytes()));
}

pub fn map(input: &[u8], number: u32, output: &mut [u8]) {
    let mut counts: FnvIndexMap<(u8, bool), u32, 16> = FnvIndexMap::new();
    let mut refused = 0u8;
    for &byte in input {
        let key = (byte % 19, byte > 127);
        if byte % 7 == 6 {
            counts.remove(&key);
        } else if let Some(count) = counts.get_mut(&key) {
            *count += number;
        } else if counts.insert(key, 1).is_err() {
            refused = refused.wrapping_add(1);
        }
    }
    let mut out = Out::new(output);
    out.bytes(&[counts.len() as u8, refused]);
    for (key, count) in &counts {
        out.bytes(&[key.0, u8::from(key.1)]);
        out.bytes(&count.to_le_bytes());
    }
}

pub fn heap(input: &[u8], number: u32, output: &mut [u8]) {
    let mut heap: BinaryHeap<(u16, u8), Min, 24> = BinaryHeap::new();
    let mut out = Out::new(output);
    for (i, &byte) in input.iter().enumerate() {
        if heap.push((u16::from(byte) * (number as u16 | 1), i as u8)).is_err() {
            for _ in 0..byte % 5 {
                if let Some((key, at)) = heap.pop() {
                    out.bytes(&key.to_le_bytes());
                    out.bytes(&[at]);
                }
            }
        }
    }
    out.bytes(&heap.peek().map_or([0xff; 2], |top| top.0.to_be_bytes()));
}
