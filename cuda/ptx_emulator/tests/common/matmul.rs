//! A matrix multiplication in PTX as kernels for Hopper have it: one thread loads tiles by tensor copies, two warpgroups multiply.

use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Emulator, EmulatorError, PtxModule, Turns, UndefinedByte};

use super::tensor_copy::Map;

pub const M: usize = 128;
pub const N: usize = 256;

/// Numbers in memory that begins at a multiple of 128.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u16; 64]);

/// A matrix of small integers, and the same as bf16 for a tensor map.
pub struct Matrix {
    pub numbers: Vec<f64>,
    lines: Vec<Line>,
}

impl Matrix {
    pub fn new(count: usize, seed: usize) -> Matrix {
        let number = |i: usize| ((i * 37 + seed + i / 11 * 5) % 17) as f64 - 8.0;
        let numbers: Vec<f64> = (0..count).map(number).collect();
        let mut lines = vec![Line([0; 64]); count.div_ceil(64)];
        for (i, &number) in numbers.iter().enumerate() {
            lines[i / 64].0[i % 64] = ((number as f32).to_bits() >> 16) as u16;
        }
        Matrix { numbers, lines }
    }

    /// The map of its tiles of 64 columns, as bytes.
    pub fn map(&self, columns: usize, rows_of_tile: u32, row: u64) -> [u8; 128] {
        let map = Map {
            element: 2,
            is_rounded: false,
            address: self.lines.as_ptr().expose_provenance() as u64,
            sizes: vec![columns as u64, (self.numbers.len() / columns) as u64],
            strides: vec![2 * columns as u64],
            tile: vec![64, rows_of_tile],
            row,
        };
        map.encode()
    }
}

/// The kernel: `out = A[128 * blocks, K] B[256, K]^T`, with k in steps of 64 and two stages.
pub fn text() -> String {
    let d = |i: usize| format!("%d{i}");
    let list = (0..128).map(d).collect::<Vec<_>>().join(", ");
    let multiply = |at: usize, keep: &str| {
        let (a, b) = (format!("%a{at}"), format!("%b{at}"));
        format!(
            "add.u64 {a}, %desc_a, {0}; add.u64 {b}, %desc_b, {0};\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 \
             {{{list}}}, {a}, {b}, {keep}, 1, 1, 0, 0;\n",
            2 * at
        )
    };
    let multiplies: String = (0..4).map(|at| multiply(at, if at == 0 { "%keep" } else { "1" })).collect();
    let store = |i: usize| {
        let offset = 4 * (8 * (i / 4) + i % 2 + if i % 4 < 2 { 0 } else { 8 * N });
        format!("st.global.b32 [%at+{offset}], %d{i};\n")
    };
    let stores: String = (0..128).map(store).collect();
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64
        .extern .shared .align 1024 .b8 tiles[];
        .visible .entry matmul(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128], .param .u64 out,
            .param .u32 steps)
        .maxntid 384 .minnctapersm 1
        {{
            .reg .pred %p<9>; .reg .pred %keep; .reg .b32 %r<29>; .reg .b32 %d<128>; .reg .b64 %rd<9>;
            .reg .b64 %a<4>; .reg .b64 %b<4>; .reg .b64 %desc_a, %desc_b, %at;
            .reg .b32 %tid, %tiles, %full, %empty, %k, %stage, %parity, %steps, %row, %before;
            mov.u32 %tid, %tid.x; mov.u64 %rd1, tiles; cvt.u32.u64 %tiles, %rd1;
            add.u32 %full, %tiles, 98304; add.u32 %empty, %tiles, 98320;
            ld.param.u32 %steps, [steps]; mov.u32 %k, 0;
            mov.u32 %row, %ctaid.x; shl.b32 %row, %row, 7;
            setp.ne.u32 %p0, %tid, 0; @%p0 bra READY;
            mbarrier.init.shared.b64 [%full], 1; mbarrier.init.shared.b64 [%full+8], 1;
            mbarrier.init.shared.b64 [%empty], 2; mbarrier.init.shared.b64 [%empty+8], 2;
            fence.mbarrier_init.release.cluster;
        READY:
            bar.sync 0;
            setp.ge.u32 %p1, %tid, 128; @%p1 bra MULTIPLY;
            setmaxnreg.dec.sync.aligned.u32 40;
            @%p0 bra DONE;
            mov.b64 %rd2, map_a; cvta.param.u64 %rd2, %rd2; mov.b64 %rd3, map_b; cvta.param.u64 %rd3, %rd3;
            prefetch.tensormap [%rd2];
        LOAD:
            and.b32 %stage, %k, 1; shr.u32 %parity, %k, 1; and.b32 %parity, %parity, 1; xor.b32 %parity, %parity, 1;
            shl.b32 %r1, %stage, 3; add.u32 %r2, %empty, %r1; add.u32 %r3, %full, %r1;
        FREE:
            mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %parity; @!%p2 bra FREE;
            mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 49152;
            mad.lo.u32 %r4, %stage, 49152, %tiles; add.u32 %r5, %r4, 16384; shl.b32 %r6, %k, 6;
            cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd2, {{%r6, %row}}], [%r3];
            cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd3, {{%r6, 0}}], [%r3];
            add.u32 %k, %k, 1; setp.lt.u32 %p3, %k, %steps; @%p3 bra LOAD;
            bra DONE;
        MULTIPLY:
            setmaxnreg.inc.sync.aligned.u32 232;
            shr.u32 %r10, %tid, 7; sub.u32 %r10, %r10, 1; and.b32 %r11, %tid, 127;
        STEP:
            and.b32 %stage, %k, 1; shr.u32 %parity, %k, 1; and.b32 %parity, %parity, 1;
            shl.b32 %r1, %stage, 3; add.u32 %r2, %empty, %r1; add.u32 %r3, %full, %r1;
        FILLED:
            mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %parity; @!%p2 bra FILLED;
            mad.lo.u32 %r4, %stage, 49152, %tiles; add.u32 %r5, %r4, 16384; mad.lo.u32 %r4, %r10, 8192, %r4;
            shr.u32 %r4, %r4, 4; shr.u32 %r5, %r5, 4; cvt.u64.u32 %desc_a, %r4; cvt.u64.u32 %desc_b, %r5;
            or.b64 %desc_a, %desc_a, 4611686293305360384; or.b64 %desc_b, %desc_b, 4611686293305360384;
            setp.ne.u32 %keep, %k, 0; setp.eq.u32 %p4, %r11, 0; setp.ne.and.u32 %p5, %k, 0, %p4;
            wgmma.fence.sync.aligned;
            {multiplies}
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned 1;
            @%p5 mbarrier.arrive.shared.b64 _, [%before];
            mov.u32 %before, %r2;
            add.u32 %k, %k, 1; setp.lt.u32 %p3, %k, %steps; @%p3 bra STEP;
            wgmma.wait_group.sync.aligned 0;
            and.b32 %r12, %tid, 31; shr.u32 %r13, %r11, 5; shr.u32 %r14, %r12, 2; and.b32 %r15, %r12, 3;
            mad.lo.u32 %r16, %r10, 64, %row; mad.lo.u32 %r16, %r13, 16, %r16; add.u32 %r16, %r16, %r14;
            shl.b32 %r17, %r15, 1; mad.lo.u32 %r16, %r16, {N}, %r17;
            ld.param.u64 %at, [out]; mad.wide.u32 %at, %r16, 4, %at;
            {stores}
        DONE:
            ret;
        }}"
    )
}

/// A problem, and how it is launched.
pub struct Problem {
    pub blocks: usize,
    pub steps: usize,
    /// Bytes of a swizzled row of A.
    pub row_a: u64,
    pub turns: Turns,
}

/// Runs the kernel on small integers. How many results are wrong, and the first that is undefined.
pub fn run(text: &str, problem: &Problem) -> Result<(usize, Option<UndefinedByte>), EmulatorError> {
    let Problem { blocks, steps, row_a, turns } = *problem;
    let (rows, k) = (M * blocks, 64 * steps);
    let (mut a, mut b) = (Matrix::new(rows * k, 3), Matrix::new(N * k, 8));
    let maps = [a.map(k, 128, row_a), b.map(k, 256, 128)];
    let mut out = vec![0f32; rows * N];
    let address = (out.as_mut_ptr().expose_provenance() as u64).to_le_bytes();
    let mut emulator = Emulator::new(PtxModule::parse(text)?).with_turns(turns).with_max_steps(100_000_000);
    // SAFETY: the matrices outlive the launch, and no other code uses them.
    unsafe {
        emulator.lend(&mut a.lines);
        emulator.lend(&mut b.lines);
        emulator.lend(&mut out);
        let config = LaunchConfig::new(blocks as u32, 384).with_shared_bytes(98_336);
        let args: [&[u8]; 4] = [&maps[0], &maps[1], &address, &(steps as u32).to_le_bytes()];
        emulator.launch("matmul", config, &args)?;
    }
    let expected = |row: usize, column: usize| -> f64 {
        (0..k).map(|at| a.numbers[row * k + at] * b.numbers[column * k + at]).sum()
    };
    let is_wrong = |i: &usize| f64::from(out[*i]) != expected(i / N, i % N);
    Ok(((0..out.len()).filter(is_wrong).count(), emulator.undefined_in(&out)))
}
