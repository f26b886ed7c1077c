//! Copies of tensor tiles on the executor: which bytes they move, when, and wrong uses.

use cuda_std::barrier::Barrier;
use cuda_std::simt::Executor;
use cuda_std::tensor::{self, ElementType, Swizzle, TensorElement, TensorMap, TensorMapError, TensorMapSpec};
use cuda_std::{bulk, cluster, shared, shared_array, thread};

use crate::common::{Out, all, barrier_for, fibers, on, tid};

/// Memory for a tile, aligned for each swizzle.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Tile([u8; 1024]);

/// Memory with the alignment of a device's buffers.
#[derive(Clone)]
#[repr(C, align(16))]
struct Aligned<const LEN: usize>([u8; LEN]);

/// Checks the bytes that a copy of the tile at `at` brings to shared memory.
#[track_caller]
fn check_loaded<const RANK: usize>(executor: Executor, map: &TensorMap, at: [i32; RANK], bytes: &[u8]) {
    let len = bytes.len();
    let kernel = |to: &Out<u8>| {
        let (tile, ready) = (shared::dynamic_shared_mem_aligned::<Tile>().cast::<u8>(), barrier_for(1));
        // SAFETY: one thread copies the tile, and all wait for it.
        unsafe {
            if tid() == 0 {
                Barrier::arrive_expect_tx(ready, len as u32);
                tensor::prefetch(map);
                tensor::global_to_shared(tile, map, at, ready);
            }
            Barrier::wait_parity(ready, 0);
            (tid()..len).step_by(32).for_each(|i| *to.at(i) = *tile.add(i));
        }
    };
    on(1, 32).shared_bytes(1024 + len as u32).by([executor]).writes(&vec![0xee; len], kernel, bytes);
}

/// Returns the bytes of the tile without a swizzle, element by element.
fn expected<T: TensorElement, const RANK: usize>(
    spec: &TensorMapSpec<RANK>,
    memory: &[u8],
    at: [i32; RANK],
) -> Vec<u8> {
    let size = size_of::<T>();
    let elements: u32 = spec.tile.iter().product();
    let mut bytes = Vec::new();
    for i in 0..elements {
        let (mut rest, mut first, mut is_inside) = (i, 0, true);
        for (dimension, &start) in at.iter().enumerate() {
            let position = i64::from(start) + i64::from(rest % spec.tile[dimension]);
            rest /= spec.tile[dimension];
            is_inside &= position >= 0 && position < spec.sizes[dimension] as i64;
            first += position * spec.strides[dimension] as i64 * size as i64;
        }
        if is_inside {
            bytes.extend(&memory[first as usize..][..size]);
        } else {
            bytes.extend(vec![0; size]);
        }
    }
    bytes
}

/// Returns where the byte lies: `bits` bits from bit 4 on are xored with the bits from bit 7 on.
fn swizzled(offset: usize, bits: u32) -> usize {
    let changed = ((1usize << bits) - 1) << 4;
    offset ^ (offset >> 3 & changed)
}

fn check<T: TensorElement, const RANK: usize>(spec: TensorMapSpec<RANK>, places: &[[i32; RANK]]) {
    let memory: Vec<u8> = (0..spec.bytes()).map(|i| (i * 7 + i / 251 + 1) as u8).collect();
    let mut aligned = vec![Aligned([0; 16]); memory.len().div_ceil(16)];
    // SAFETY: `aligned` has at least this number of bytes.
    unsafe { aligned.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(memory.as_ptr(), memory.len()) };
    let map = spec.encode_raw(aligned.as_mut_ptr().cast(), memory.len() as u64).unwrap();
    let bits = match spec.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    };
    let executors = all();
    for (i, &at) in places.iter().enumerate() {
        let plain = expected::<T, RANK>(&spec, &memory, at);
        let mut bytes = plain.clone();
        plain.iter().enumerate().for_each(|(offset, byte)| bytes[swizzled(offset, bits)] = *byte);
        check_loaded(executors[i % executors.len()].clone(), &map, at, &bytes);
    }
}

#[test]
fn tiles_of_every_rank_and_element_are_loaded() {
    check::<u8, 1>(TensorMapSpec::new::<u8>([100], [32]), &[[0], [16], [80], [-16], [208], [-32]]);
    check::<f64, 1>(TensorMapSpec::new::<f64>([9], [4]), &[[0], [8], [-2]]);
    let matrix = TensorMapSpec::new::<f32>([20, 7], [8, 4]);
    check::<f32, 2>(
        matrix,
        &[[0, 0], [4, 1], [16, 5], [-4, -2], [20, 0], [0, 7], [i32::MIN, 0], [0, i32::MAX]],
    );
    if cfg!(miri) {
        return;
    }
    check::<f32, 2>(matrix.with_strides([1, 24]), &[[0, 0], [16, 3], [-4, 6]]);
    check::<u16, 3>(
        TensorMapSpec::new::<u16>([16, 5, 3], [16, 2, 2]),
        &[[0, 0, 0], [8, 4, 2], [-8, -1, -1], [8, 3, 1]],
    );
    check::<i32, 4>(
        TensorMapSpec::new::<i32>([8, 3, 3, 2], [8, 2, 2, 2]),
        &[[0; 4], [4, 2, 1, 1], [-4, -1, 2, 0]],
    );
    check::<u64, 5>(
        TensorMapSpec::new::<u64>([4, 3, 2, 3, 2], [4, 2, 1, 2, 2]),
        &[[0; 5], [2, 2, 1, 2, 1], [-2, -1, -1, -1, -1]],
    );
    // A dimension with a smaller stride than the previous one.
    let transposed = TensorMapSpec::new::<f32>([4, 6, 5], [4, 3, 2]).with_strides([1, 20, 4]);
    check::<f32, 3>(transposed, &[[0, 0, 0], [0, 4, 3], [0, 1, 1]]);
}

#[test]
fn swizzled_tiles_lie_where_the_bits_of_their_address_say() {
    let rows = if cfg!(miri) { 8 } else { 40 };
    let spec = |row: u32| TensorMapSpec::new::<u16>([100 + 4, 50], [row / 2, rows]);
    check::<u16, 2>(spec(128).with_swizzle(Swizzle::Bytes128), &[[0, 0], [72, 30], [-8, -3]]);
    check::<u16, 2>(spec(64).with_swizzle(Swizzle::Bytes64), &[[0, 0], [88, 33], [-8, -3]]);
    check::<u16, 2>(spec(32).with_swizzle(Swizzle::Bytes32), &[[0, 0], [96, 33], [-8, -3]]);
}

/// Tiles that overlap the tensor's bounds are stored in part, from the swizzled positions of their bytes.
#[test]
fn tiles_are_stored_within_the_tensor() {
    for executor in all() {
        let mut memory = Box::new(Aligned([0x11u8; 24 * 4 * 10]));
        // 10 rows of 20 numbers, 24 apart.
        let spec = TensorMapSpec::new::<u32>([20, 10], [8, 16]).with_strides([1, 24]);
        let spec = spec.with_swizzle(Swizzle::Bytes32);
        let map = spec.encode_raw(memory.0.as_mut_ptr(), memory.0.len() as u64 - 16).unwrap();
        on(1, 32).by([executor]).check(|| {
            let tile = shared_array![Tile; 1].cast::<u8>();
            // SAFETY: each thread writes its bytes, and one thread stores the tile.
            unsafe {
                for i in (tid()..512).step_by(32) {
                    *tile.add(swizzled(i, 1)) = (i / 4 + 1) as u8;
                }
                bulk::fence_shared();
                thread::sync_threads();
                if tid() == 0 {
                    tensor::shared_to_global(&map, [16, -12], tile);
                    tensor::shared_to_global(&map, [-4, 8], tile);
                    bulk::commit();
                    bulk::wait::<0>();
                }
            }
        });
        for (i, &byte) in memory.0.iter().enumerate() {
            let (row, column) = (i / 96, i % 96 / 4);
            let number = if row < 4 && (16..20).contains(&column) {
                (row + 12) * 8 + column - 16 + 1
            } else if row >= 8 && column < 4 {
                (row - 8) * 8 + column + 4 + 1
            } else {
                0x11
            };
            assert_eq!(byte, number as u8, "row {row}, column {column}");
        }
    }
}

/// Each block of the mask gets the tile, and counts it at its own barrier.
#[test]
fn a_tile_is_loaded_by_several_blocks_of_a_cluster() {
    let memory = Box::new(Aligned(core::array::from_fn::<u8, 256, _>(|i| i as u8)));
    let map = TensorMapSpec::new::<u8>([256], [128]).encode_for_cpu(&memory.0).unwrap();
    let kernel = |to: &Out<u8>| {
        let (tile, ready) = (shared_array![Tile; 1].cast::<u8>(), barrier_for(1));
        let rank = cluster::block_rank() as usize;
        // SAFETY: block 2 copies for the blocks 1 and 3, which wait, and none ends before.
        unsafe {
            if tid() == 0 {
                Barrier::arrive_expect_tx(ready, if rank % 2 == 1 { 128 } else { 0 });
            }
            cluster::sync();
            if tid() == 0 && rank == 2 {
                tensor::global_to_shared_multicast(tile, &map, [112], ready, 0b1010);
            }
            Barrier::wait_parity(ready, 0);
            if rank % 2 == 1 {
                (tid()..128).step_by(32).for_each(|i| *to.at(rank * 128 + i) = *tile.add(i));
            }
            cluster::sync();
        }
    };
    let after = |i: usize| if i / 128 % 2 == 1 { (112 + i % 128) as u8 } else { 0 };
    on(4, 32).cluster(4).writes(&[0; 512], kernel, &(0..512).map(after).collect::<Vec<_>>());
}

/// Checks the panic of a thread that does this with a tile and a barrier.
#[track_caller]
fn check_panic(expected: &str, kernel: impl Fn(*mut u8, *mut Barrier) + Sync) {
    on(1, 1).fails(&format!("panicked: .. {expected}"), || {
        kernel(shared_array![Tile; 1].cast::<u8>(), barrier_for(1));
    });
}

#[test]
fn wrong_copies_are_reported() {
    let memory = Box::new(Aligned([0u8; 4096]));
    let map = TensorMapSpec::new::<u8>([64, 64], [32, 8]).encode_for_cpu(&memory.0).unwrap();
    let swizzled = TensorMapSpec::new::<u8>([128, 32], [128, 8]).with_swizzle(Swizzle::Bytes128);
    let swizzled = swizzled.encode_for_cpu(&memory.0).unwrap();
    let odd =
        TensorMapSpec::new::<u8>([40, 8], [32, 8]).with_strides([1, 64]).encode_for_cpu(&memory.0).unwrap();
    let large = TensorMapSpec::new::<u8>([64, 64], [64, 64]).encode_for_cpu(&memory.0).unwrap();
    // SAFETY: on the executor all of these are faults.
    unsafe {
        check_panic("tensor::global_to_shared() got the shared address 0x", |tile, ready| {
            tensor::global_to_shared(tile.add(16), &map, [0, 0], ready);
        });
        check_panic("align it to 1024 bytes for Swizzle::Bytes128", |tile, ready| {
            tensor::global_to_shared(tile.add(128), &swizzled, [0, 0], ready);
        });
        check_panic("got 3 coordinates for a tensor of 2 dimensions", |tile, ready| {
            tensor::global_to_shared(tile, &map, [0, 0, 0], ready);
        });
        let text = "got the innermost coordinate 8 of elements of 1 bytes; make it a multiple of 16 bytes";
        check_panic(text, |tile, ready| tensor::global_to_shared(tile, &map, [8, 0], ready));
        check_panic(text, |tile, _| tensor::shared_to_global(&map, [8, 0], tile));
        check_panic("of 4096 bytes at 0x", |tile, ready| {
            tensor::global_to_shared(tile, &large, [0, 0], ready);
        });
        check_panic("got a tensor map that is not for the CPU", |tile, ready| {
            tensor::global_to_shared(tile, &TensorMap::from_words([0; 16]), [0, 0], ready);
        });
        check_panic("got a barrier at 0x", |tile, _| {
            let mut elsewhere = 0u64;
            tensor::global_to_shared(tile, &map, [0, 0], (&raw mut elsewhere).cast());
        });
        check_panic("counts at a barrier that was not fenced", |tile, ready| {
            Barrier::inval(ready);
            Barrier::init(ready, 1);
            tensor::global_to_shared(tile, &map, [0, 0], ready);
        });
        check_panic("to no block; set a bit for each block", |tile, ready| {
            tensor::global_to_shared_multicast(tile, &map, [0, 0], ready, 0);
        });
        check_panic("was asked for block 1 of a cluster of 1", |tile, ready| {
            tensor::global_to_shared_multicast(tile, &map, [0, 0], ready, 2);
        });
        check_panic("writes whole 16 bytes, and the tensor's rows end after 40", |tile, _| {
            tensor::shared_to_global(&odd, [32, 0], tile);
        });
        check_panic("tensor::shared_to_global() of what no thread has fenced", |tile, _| {
            *tile = 1;
            tensor::shared_to_global(&map, [0, 0], tile);
        });
    }
}

#[test]
fn stores_that_are_not_fenced_again_or_not_waited_for_are_reported() {
    let mut memory = Box::new(Aligned([0u8; 256]));
    let map = TensorMapSpec::new::<u8>([256], [256]).encode_for_cpu_mut(&mut memory.0).unwrap();
    let kernel = |writes_again: bool| {
        let tile = shared_array![Tile; 1].cast::<u8>();
        // SAFETY: on the executor it is a fault.
        unsafe {
            (0..256).for_each(|i| *tile.add(i) = i as u8);
            bulk::fence_shared();
            tensor::shared_to_global(&map, [0], tile);
            if writes_again {
                bulk::commit();
                bulk::wait_read::<0>();
                *tile.add(100) = 7;
                tensor::shared_to_global(&map, [0], tile);
            }
        }
    };
    on(1, 1).fails("tensor::shared_to_global of 256 bytes was reading shared memory when", || kernel(false));
    if !cfg!(miri) {
        on(1, 1).by(fibers()).fails("of what no thread has fenced since it was written", || kernel(true));
    }
}

#[test]
fn descriptions_that_break_a_rule_are_refused() {
    let spec = TensorMapSpec::new::<f32>([32, 8], [8, 4]);
    let bytes = 32 * 8 * 4;
    assert_eq!((spec.bytes(), spec.tile_bytes(), spec.check(0x100, bytes)), (bytes, 128, Ok(())));
    let check = |spec: TensorMapSpec<2>, expected: TensorMapError, text: &str| {
        let error = spec.check(0x100, bytes).unwrap_err();
        assert_eq!(error, expected);
        assert_eq!(error.to_string(), text);
    };
    check(
        TensorMapSpec { sizes: [32, 9], ..spec },
        TensorMapError::Buffer { needed: bytes + 128, bytes },
        "the tensor takes 1152 bytes from the buffer's start, which has 1024; pass smaller sizes or strides",
    );
    check(
        TensorMapSpec { sizes: [32, 0], ..spec },
        TensorMapError::Size { dimension: 1, size: 0 },
        "the tensor has 0 elements in dimension 1; pass 1 to 2^32",
    );
    check(
        spec.with_strides([2, 32]),
        TensorMapError::InnermostStride { stride: 2 },
        "the innermost dimension has stride 2; its elements are neighbours, so it is 1",
    );
    check(
        spec.with_strides([1, 33]),
        TensorMapError::Stride { dimension: 1, bytes: 132 },
        "dimension 1 has a stride of 132 bytes; it is a multiple of 16 below 2^40",
    );
    check(
        TensorMapSpec { tile: [8, 257], ..spec },
        TensorMapError::Tile { dimension: 1, size: 257 },
        "the tile has 257 elements in dimension 1; pass 1 to 256",
    );
    check(
        TensorMapSpec { tile: [6, 4], ..spec },
        TensorMapError::Row { bytes: 24, swizzle: Swizzle::None },
        "a row of the tile has 24 bytes; make it a multiple of 16",
    );
    check(
        spec.with_swizzle(Swizzle::Bytes64),
        TensorMapError::Row { bytes: 32, swizzle: Swizzle::Bytes64 },
        "a row of the tile has 32 bytes; with Swizzle::Bytes64 it has 64",
    );
    assert_eq!(spec.check(0x108, bytes), Err(TensorMapError::Address { address: 0x108 }));
    let elements = Box::new(Aligned([0u8; 1024]));
    let error = spec.encode_for_cpu(&elements.0).unwrap_err();
    assert_eq!(error, TensorMapError::Element { spec: ElementType::F32, buffer: ElementType::U8 });
    assert_eq!(TensorMapSpec::new::<u8>([], []).check(0, 0), Err(TensorMapError::Rank { rank: 0 }));
    let huge = TensorMapSpec::new::<u8>([1 << 32, 1 << 32, 16], [16, 1, 1]);
    assert!(matches!(huge.check(0, u64::MAX), Err(TensorMapError::Stride { dimension: 2, .. })));
}
