//! One `wgmma` of a warpgroup, on operands whose bytes in shared memory the test places.

use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Emulator, EmulatorError, PtxModule, UndefinedByte};

/// Bytes of shared memory, the first half for A.
pub const BYTES: usize = 128 << 10;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    F16,
    Bf16,
    Tf32,
    E4m3,
}

impl Ty {
    pub fn name(self) -> &'static str {
        match self {
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::Tf32 => "tf32",
            Ty::E4m3 => "e4m3",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Ty::F16 | Ty::Bf16 => 2,
            Ty::Tf32 => 4,
            Ty::E4m3 => 1,
        }
    }

    pub fn k(self) -> usize {
        32 / self.bytes()
    }

    /// The pattern of a small integer.
    pub fn encode(self, value: i32) -> u32 {
        let bits = (value as f32).to_bits();
        // With other bits of exponent and fraction.
        let narrow = |exponent_bits: u32, fraction_bits: u32| {
            let sign = (bits >> 31) << (exponent_bits + fraction_bits);
            if value == 0 {
                return sign;
            }
            let exponent = (bits >> 23 & 0xff) - 127 + (1 << (exponent_bits - 1)) - 1;
            sign | exponent << fraction_bits | (bits & 0x7f_ffff) >> (23 - fraction_bits)
        };
        match self {
            Ty::F16 => narrow(5, 10),
            Ty::Bf16 => bits >> 16,
            // The lowest bits do not count.
            Ty::Tf32 => bits | 0x1abc,
            Ty::E4m3 => narrow(4, 3),
        }
    }
}

/// How an operand lies in shared memory, from `start` on.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bytes of a swizzled row.
    pub row: Option<usize>,
    /// Whether rows of A, or columns of B, are innermost.
    pub trans: bool,
    pub leading: usize,
    pub stride: usize,
    pub start: usize,
    /// Bytes of k before the operand's own in each row.
    pub before: usize,
    pub base: u64,
}

impl Layout {
    /// The byte of element `k` of row or column `mn`, as the figures of the ISA have it.
    pub fn place(&self, ty: Ty, mn: usize, k: usize) -> usize {
        let Layout { leading, stride, start, before, .. } = *self;
        let along_k = before + k * ty.bytes();
        // Which of the eight lines of 128 bytes a row is in.
        let phase = |row: usize, minor: usize| minor % 8 * row / 128 % (row / 16);
        start
            + match (self.row, self.trans) {
                (None, false) => mn / 8 * stride + mn % 8 * 16 + along_k / 16 * leading + along_k % 16,
                (None, true) => k / 8 * leading + k % 8 * 16 + mn / 8 * stride + mn % 8 * 2,
                (Some(row), false) => {
                    mn / 8 * stride + mn % 8 * row + ((along_k / 16) ^ phase(row, mn)) * 16 + along_k % 16
                }
                (Some(row), true) => {
                    let (panel, within) = (mn / (row / 2), mn % (row / 2));
                    let unit = ((within / 8) ^ phase(row, k)) * 16 + within % 8 * 2;
                    panel * leading + k / 8 * stride + k % 8 * row + unit
                }
            }
    }

    /// The descriptor, for shared memory that begins at 0.
    pub fn descriptor(&self) -> u64 {
        let encode = |bytes: usize| (bytes as u64 & 0x3_ffff) >> 4;
        let mode = [(None, 0), (Some(128), 1), (Some(64), 2), (Some(32), 3)];
        let mode: u64 = mode.iter().find(|(row, _)| *row == self.row).unwrap().1;
        encode(self.start + self.before)
            | encode(self.leading) << 16
            | encode(self.stride) << 32
            | self.base << 49
            | mode << 62
    }
}

/// Where A is.
#[derive(Clone, Copy, Debug)]
pub enum A {
    Shared(Layout),
    Registers,
}

/// One multiplication.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub ty: Ty,
    pub n: usize,
    pub a: A,
    pub b: Layout,
    pub keeps: bool,
    pub scales: [i32; 2],
}

/// Element `k` of row `m` of A, and of column `n` of B.
pub fn a_at(m: usize, k: usize) -> i32 {
    ((m * 7 + k * 5 + m * k) % 13) as i32 - 6
}

pub fn b_at(n: usize, k: usize) -> i32 {
    ((n * 3 + k * 11 + n * k) % 15) as i32 - 7
}

impl Case {
    /// The kernel: copies the image to shared memory, multiplies, and stores the accumulators of each thread.
    pub fn text(&self) -> String {
        let Case { ty, n, a, b, keeps, scales } = *self;
        let list = |name: &str, count: usize| {
            (0..count).map(|i| format!("{name}{i}")).collect::<Vec<_>>().join(", ")
        };
        let trans = matches!(ty, Ty::F16 | Ty::Bf16);
        let flag =
            |layout: Layout| if trans { format!(", {}", u32::from(layout.trans)) } else { String::new() };
        let (a_operand, a_set, a_flag) = match a {
            A::Shared(layout) => (
                "%desc_a".to_owned(),
                format!("mov.u64 %desc_a, {}; add.u64 %desc_a, %desc_a, %rd1;", layout.descriptor()),
                flag(layout),
            ),
            A::Registers => {
                let load = "mad.wide.u32 %rd3, %tid, 16, %image;";
                let loads = format!("{load} ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%rd3+{BYTES}];");
                (format!("{{{}}}", list("%a", 4)), loads, String::new())
            }
        };
        let ones: String = (0..n / 2).map(|i| format!("mov.b32 %d{i}, 0f3F800000;")).collect();
        let stores: String =
            (0..n / 2).map(|i| format!("st.global.b32 [%out+{}], %d{i};\n", 4 * i)).collect();
        let registers = n / 2;
        let (d, b_set) = (list("%d", registers), b.descriptor());
        let [scale_a, scale_b] = scales;
        let (k, name, b_flag, keeps) = (ty.k(), ty.name(), flag(b), u32::from(keeps));
        format!(
            ".version 8.6\n.target sm_90a\n.address_size 64
            .extern .shared .align 1024 .b8 tiles[];
            .visible .entry k(.param .u64 out, .param .u64 image) {{
                .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b32 %d<{registers}>; .reg .b32 %a<4>; .reg .b32 %tid;
                .reg .b64 %rd<9>; .reg .b64 %desc_a, %desc_b, %out, %image;
                ld.param.u64 %out, [out]; ld.param.u64 %image, [image];
                mov.u32 %tid, %tid.x; mul.wide.u32 %rd4, %tid, {}; add.u64 %out, %out, %rd4;
                mov.u64 %rd1, tiles; mov.u32 %r1, %tid;
            COPY:
                mul.wide.u32 %rd5, %r1, 16; add.u64 %rd6, %image, %rd5; add.u64 %rd7, %rd1, %rd5;
                ld.global.v2.b64 {{%rd2, %rd3}}, [%rd6]; st.shared.v2.b64 [%rd7], {{%rd2, %rd3}};
                add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, {}; @%p1 bra COPY;
                fence.proxy.async.shared::cta;
                bar.sync 0;
                shr.u64 %rd1, %rd1, 4;
                {a_set}
                mov.u64 %desc_b, {b_set}; add.u64 %desc_b, %desc_b, %rd1;
                {ones}
                setp.ne.u32 %p0, {keeps}, 0;
                wgmma.fence.sync.aligned;
                wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{name}.{name} {{{d}}}, {a_operand}, %desc_b, %p0, {scale_a}, \
                 {scale_b}{a_flag}{b_flag};
                wgmma.commit_group.sync.aligned;
                wgmma.wait_group.sync.aligned 0;
                {stores}
                ret;
            }}",
            4 * registers,
            BYTES / 16,
        )
    }

    /// The bytes of shared memory, and after them the registers of A.
    fn image(&self) -> Vec<u64> {
        let mut image = vec![0xa5u8; BYTES + 16 * 128];
        let bytes = self.ty.bytes();
        let mut put = |at: usize, value: i32| {
            image[at..at + bytes].copy_from_slice(&self.ty.encode(value).to_le_bytes()[..bytes]);
        };
        for k in 0..self.ty.k() {
            for m in 0..64 {
                match &self.a {
                    A::Shared(layout) => put(layout.place(self.ty, m, k), a_at(m, k)),
                    A::Registers => put(BYTES + fragment_place(self.ty, m, k), a_at(m, k)),
                }
            }
            (0..self.n).for_each(|n| put(self.b.place(self.ty, n, k), b_at(n, k)));
        }
        image.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Runs a kernel on the case's image: the accumulators by thread, and the first undefined byte of them.
    pub fn run(&self, text: &str) -> Result<(Vec<f32>, Option<UndefinedByte>), EmulatorError> {
        let emulator = Emulator::new(PtxModule::parse(text)?).with_max_steps(10_000_000);
        self.run_on(emulator)
    }

    pub fn run_on(&self, mut emulator: Emulator) -> Result<(Vec<f32>, Option<UndefinedByte>), EmulatorError> {
        // 16 bytes a unit, so that they are aligned.
        let image: Vec<[u64; 2]> = self.image().chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        let mut image: Vec<Unit> = image.into_iter().map(Unit).collect();
        let mut out = vec![0f32; 128 * self.n / 2];
        let address = |pointer: *mut u8| (pointer.expose_provenance() as u64).to_le_bytes();
        let args = [address(out.as_mut_ptr().cast()), address(image.as_mut_ptr().cast())];
        let config = LaunchConfig::new(1, 128).with_shared_bytes(BYTES as u32);
        // SAFETY: both outlive the launch, and no other code uses them.
        unsafe {
            emulator.lend(&mut out);
            emulator.lend(&mut image);
            emulator.launch("k", config, &[&args[0], &args[1]])?;
        }
        let undefined = emulator.undefined_in(&out);
        Ok((out, undefined))
    }

    /// What the accumulators are to be, by thread.
    pub fn expected(&self) -> Vec<f32> {
        let one = |at: usize| {
            let (thread, i) = (at / (self.n / 2), at % (self.n / 2));
            let (m, n) =
                (thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2), i / 4 * 8 + thread % 4 * 2 + i % 2);
            let product: i32 = (0..self.ty.k()).map(|k| a_at(m, k) * b_at(n, k)).sum();
            (product * self.scales[0] * self.scales[1] + i32::from(self.keeps)) as f32
        };
        (0..128 * self.n / 2).map(one).collect()
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Unit(#[allow(dead_code, reason = "kernels read it")] [u64; 2]);

/// The byte of an element of A in the four registers of each thread, one thread after the other.
fn fragment_place(ty: Ty, m: usize, k: usize) -> usize {
    let (in_register, half) = (4 / ty.bytes(), ty.k() / 2);
    let thread = m / 16 * 32 + m % 8 * 4 + k % half / in_register;
    let register = m % 16 / 8 + 2 * (k / half);
    16 * thread + 4 * register + k % in_register * ty.bytes()
}
