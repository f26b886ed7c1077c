//! A tensor whose boxes one thread copies.

use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, UndefinedByte};

pub const LOAD: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
pub const WAIT: &str = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%rd2], 0; @!%p1 bra W;";

/// 128 bytes at a multiple of 128.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C, align(128))]
pub struct Line(pub [u8; 128]);

/// A tensor and its box, as `cuda_std::tensor::TensorMapSpec` has them, for any number of dimensions.
#[derive(Clone, Debug)]
pub struct Map {
    /// Bytes of an element.
    pub element: u64,
    pub is_rounded: bool,
    pub address: u64,
    pub sizes: Vec<u64>,
    pub strides: Vec<u64>,
    pub tile: Vec<u32>,
    /// Bytes of a swizzled row; 0 for no swizzle.
    pub row: u64,
}

impl Map {
    pub fn encode(&self) -> [u8; 128] {
        let swizzle = self.row.checked_ilog2().map_or(0, |row| row as u8 - 4);
        let bytes = [self.sizes.len() as u8, self.element as u8, swizzle, self.is_rounded.into()];
        let mut words = [0; 16];
        words[..3].copy_from_slice(&[
            u64::from_le_bytes(*b"cpu-tmap"),
            self.address,
            u32::from_le_bytes(bytes).into(),
        ]);
        words[3..][..self.sizes.len()].copy_from_slice(&self.sizes);
        words[8..][..self.strides.len()].copy_from_slice(&self.strides);
        for (i, &size) in self.tile.iter().enumerate() {
            words[12 + i / 2] |= u64::from(size) << (32 * (i % 2));
        }
        words.map(u64::to_le_bytes).as_flattened().try_into().unwrap()
    }
}

/// A kernel of one thread with a tile at `%rd1`, a barrier for one arrival at `%rd2`, the map at `%rd3`, and `%out`.
pub fn text_of(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64
        .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 ready[16];
        .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
            .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b64 %out;
            ld.param.u64 %out, [out]; mov.u64 %rd1, tile; mov.u64 %rd2, ready; mov.u64 %rd3, map;
            cvta.param.u64 %rd3, %rd3;
            mbarrier.init.shared.b64 [%rd2], 1; fence.mbarrier_init.release.cluster;
            {body}
            ret;
        }}"
    )
}

/// Copies `bytes` of the tile to `%out`.
pub fn keep(bytes: u64) -> String {
    format!(
        "mov.u64 %rd5, 0;
        KEEP: add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %out, %rd5; ld.shared.b8 %r2, [%rd6]; st.global.b8 [%rd7], %r2;
        add.u64 %rd5, %rd5, 1; setp.lt.u64 %p2, %rd5, {bytes}; @%p2 bra KEEP;"
    )
}

/// A tensor of numbers that are all different, and what a copy leaves.
pub struct Problem {
    pub map: Map,
    pub tensor: Vec<Line>,
    pub out: Vec<Line>,
}

impl Problem {
    pub fn new(element: u64, sizes: &[u64], tile: &[u32], row: u64) -> Problem {
        let mut strides = Vec::new();
        let mut stride = sizes[0] * element;
        for &size in &sizes[1..] {
            stride = stride.next_multiple_of(16) + 16;
            strides.push(stride);
            stride *= size;
        }
        let bytes = stride.max(128) as usize;
        let mut tensor = vec![Line([0; 128]); bytes.div_ceil(128)];
        for i in 0..bytes {
            tensor[i / 128].0[i % 128] = (i * 7 + i / 251 + 1) as u8;
        }
        let map = Map {
            element,
            is_rounded: false,
            address: tensor.as_ptr().expose_provenance() as u64,
            sizes: sizes.to_vec(),
            strides,
            tile: tile.to_vec(),
            row,
        };
        Problem { map, tensor, out: vec![Line([0xee; 128]); 64] }
    }

    pub fn run(&mut self, text: &str) -> Result<Option<UndefinedByte>, EmulatorError> {
        let emulator = Emulator::new(PtxModule::parse(text)?).with_max_steps(10_000_000);
        self.run_on(emulator, LaunchConfig::new(1, 1))
    }

    pub fn run_on(
        &mut self,
        mut emulator: Emulator,
        config: LaunchConfig,
    ) -> Result<Option<UndefinedByte>, EmulatorError> {
        let (map, out) =
            (self.map.encode(), (self.out.as_mut_ptr().expose_provenance() as u64).to_le_bytes());
        // SAFETY: tensor and results outlive the launch, and no other code uses them.
        unsafe {
            emulator.lend(&mut self.tensor);
            emulator.lend(&mut self.out);
            emulator.launch("k", config, &[&map, &out])?;
        }
        Ok(emulator.undefined_in(&self.out))
    }

    pub fn cause(&mut self, body: &str) -> Cause {
        match self.run(&text_of(body)) {
            Err(EmulatorError::Fault(fault)) => fault.cause,
            other => panic!("{other:?} instead of a fault"),
        }
    }

    fn box_bytes(&self) -> u64 {
        self.map.element * self.map.tile.iter().map(|&tile| u64::from(tile)).product::<u64>()
    }

    fn byte(lines: &[Line], at: usize) -> u8 {
        lines[at / 128].0[at % 128]
    }

    /// For each byte of the box in shared memory, its place in the tensor, if it has one.
    fn places(&self, at: &[i64]) -> Vec<Option<usize>> {
        let (element, tile) = (self.map.element as usize, &self.map.tile);
        let mut places = vec![None; self.box_bytes() as usize];
        for linear in 0..places.len() {
            let (mut rest, mut from, mut is_within) = (linear / element, linear % element, true);
            for (d, &size) in tile.iter().enumerate() {
                let x = at[d] + (rest % size as usize) as i64;
                rest /= size as usize;
                is_within &= 0 <= x && x < self.map.sizes[d] as i64;
                let stride = if d == 0 { element } else { self.map.strides[d - 1] as usize };
                from = from.wrapping_add((x as usize).wrapping_mul(stride));
            }
            // Units of 16 bytes change places by the number of their line of 128 bytes.
            let (line, unit) = (linear / 128, linear / 16 % 8);
            let unit = unit ^ (line % (self.map.row as usize / 16).max(1));
            places[line * 128 + unit * 16 + linear % 16] = is_within.then_some(from);
        }
        places
    }

    /// Loads the box at these coordinates, and checks all bytes.
    #[track_caller]
    pub fn check_load(&mut self, at: &[i64]) {
        let (rank, bytes) = (at.len(), self.box_bytes());
        let coordinates: Vec<String> = at.iter().map(i64::to_string).collect();
        let load = LOAD.replace("2d", &format!("{rank}d"));
        let body = format!(
            "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], {bytes};
            {load} [%rd1], [%rd3, {{{}}}], [%rd2]; {WAIT} {}",
            coordinates.join(", "),
            keep(bytes)
        );
        let undefined = self.run(&text_of(&body)).unwrap_or_else(|error| panic!("{:?}: {error}", self.map));
        assert_eq!(undefined, None);
        for (i, place) in self.places(at).into_iter().enumerate() {
            let expected = place.map_or(0, |place| Problem::byte(&self.tensor, place));
            assert_eq!(Problem::byte(&self.out, i), expected, "byte {i} of {:?} at {at:?}", self.map);
        }
    }

    /// Stores a box of known bytes at these coordinates, and checks the whole tensor.
    #[track_caller]
    pub fn check_store(&mut self, at: &[i64]) {
        let (rank, bytes) = (at.len(), self.box_bytes());
        let coordinates: Vec<String> = at.iter().map(i64::to_string).collect();
        let body = format!(
            "mov.b32 %r1, 0; FILL: cvt.u64.u32 %rd5, %r1; add.u64 %rd5, %rd1, %rd5; mul.lo.u32 %r2, %r1, 13;
            st.shared.b8 [%rd5], %r2; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {bytes}; @%p1 bra FILL;
            fence.proxy.async.shared::cta;
            cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd3, {{{}}}], [%rd1];
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
            coordinates.join(", ")
        );
        let mut expected = self.tensor.clone();
        for (i, place) in self.places(at).into_iter().enumerate() {
            if let Some(place) = place {
                expected[place / 128].0[place % 128] = (i * 13) as u8;
            }
        }
        self.run(&text_of(&body)).unwrap_or_else(|error| panic!("{:?}: {error}", self.map));
        assert!(self.tensor == expected, "{:?} at {at:?}", self.map);
    }
}
