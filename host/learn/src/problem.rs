//! A puzzle's problems: buffers drawn from a seed, the expected output, and the launch.

use cuda_std::bf16;
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::Tolerance;

use crate::rules::Rule;

/// A puzzle: the problems that the judge draws, and what makes a right kernel good.
pub struct Puzzle {
    /// Its number.
    pub number: u32,
    /// The name of the kernel.
    pub name: &'static str,
    /// Draws a problem.
    pub problem: fn(&mut Draw) -> Problem,
    /// What the counts of a good kernel are.
    pub rules: &'static [Rule],
}

/// Elements of a buffer.
#[derive(Clone, Debug)]
pub enum Data {
    /// Floats of 32 bits.
    F32(Vec<f32>),
    /// Integers of 32 bits.
    U32(Vec<u32>),
    /// Floats of 16 bits.
    Bf16(Vec<bf16>),
}

impl Data {
    /// The elements as numbers, and their bits.
    pub fn numbers(&self) -> Vec<(f64, u32)> {
        match self {
            Data::F32(all) => all.iter().map(|x| (f64::from(*x), x.to_bits())).collect(),
            Data::U32(all) => all.iter().map(|x| (f64::from(*x), *x)).collect(),
            Data::Bf16(all) => all.iter().map(|x| (f64::from(*x), x.to_bits().into())).collect(),
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(all) => all.len(),
            Data::U32(all) => all.len(),
            Data::Bf16(all) => all.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of an element.
    pub fn size(&self) -> usize {
        if matches!(self, Data::Bf16(_)) { 2 } else { 4 }
    }

    /// As many elements that no right kernel writes.
    fn unwritten(&self) -> Data {
        match self {
            Data::F32(all) => Data::F32(vec![f32::SENTINEL; all.len()]),
            Data::U32(all) => Data::U32(vec![u32::SENTINEL; all.len()]),
            Data::Bf16(all) => Data::Bf16(vec![bf16::from_f32(f32::SENTINEL); all.len()]),
        }
    }
}

/// What outputs hold before the launch.
pub trait Sentinel {
    /// A number that no right kernel writes.
    const SENTINEL: Self;
}

impl Sentinel for f32 {
    const SENTINEL: f32 = -7_654_321.0;
}

impl Sentinel for u32 {
    const SENTINEL: u32 = 0xa5a5_a5a5;
}

impl From<Vec<f32>> for Data {
    fn from(all: Vec<f32>) -> Self {
        Data::F32(all)
    }
}

impl From<Vec<u32>> for Data {
    fn from(all: Vec<u32>) -> Self {
        Data::U32(all)
    }
}

impl From<Vec<bf16>> for Data {
    fn from(all: Vec<bf16>) -> Self {
        Data::Bf16(all)
    }
}

/// A buffer of a problem.
pub struct Buffer {
    /// The name of the kernel's parameter.
    pub name: &'static str,
    /// What it holds before the launch.
    pub initial: Data,
    /// What it must hold afterwards; `None` for an input.
    pub expected: Option<Data>,
    /// How far an output may be off.
    pub tolerance: Tolerance,
    /// Whether it holds nothing of meaning before the launch.
    pub is_fresh: bool,
    /// The columns of a matrix.
    pub cols: Option<usize>,
    /// Whether the parameter is a slice, so that the kernel gets the length, too.
    pub is_slice: bool,
}

/// An argument of a launch.
pub enum Argument {
    /// The buffer of this index.
    Buffer(usize),
    /// A number.
    Number(&'static str, u32),
}

/// One launch, and what it must compute.
pub struct Problem {
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
    /// Grid and block.
    pub config: LaunchConfig,
}

impl Problem {
    /// A problem without arguments.
    pub fn new(config: LaunchConfig) -> Problem {
        Problem { buffers: Vec::new(), arguments: Vec::new(), config }
    }

    fn last(&mut self) -> &mut Buffer {
        self.buffers.last_mut().expect("a buffer comes first")
    }

    fn add(mut self, name: &'static str, initial: Data, expected: Option<Data>, is_slice: bool) -> Problem {
        self.arguments.push(Argument::Buffer(self.buffers.len()));
        let tolerance = match &initial {
            Data::F32(_) => Tolerance::of::<f32>(),
            Data::U32(_) => Tolerance::EXACT,
            Data::Bf16(_) => Tolerance::of::<bf16>(),
        };
        self.buffers.push(Buffer {
            name,
            initial,
            expected,
            tolerance,
            is_fresh: false,
            cols: None,
            is_slice,
        });
        self
    }

    /// Adds a parameter `*mut T` that must hold `expected` afterwards, and holds nothing before.
    pub fn output(self, name: &'static str, expected: impl Into<Data>) -> Problem {
        let expected = expected.into();
        let mut problem = self.add(name, expected.unwritten(), Some(expected), false);
        problem.last().is_fresh = true;
        problem
    }

    /// Same, with what it holds before.
    pub fn update(self, name: &'static str, initial: impl Into<Data>, expected: impl Into<Data>) -> Problem {
        self.add(name, initial.into(), Some(expected.into()), false)
    }

    /// Adds a parameter `&[T]`.
    pub fn slice(self, name: &'static str, data: impl Into<Data>) -> Problem {
        self.add(name, data.into(), None, true)
    }

    /// Adds a parameter `*const T`.
    pub fn input(self, name: &'static str, data: impl Into<Data>) -> Problem {
        self.add(name, data.into(), None, false)
    }

    /// Adds a parameter `u32`.
    pub fn number(mut self, name: &'static str, value: usize) -> Problem {
        self.arguments.push(Argument::Number(name, value as u32));
        self
    }

    /// The columns of the buffer that was added last, a matrix.
    pub fn cols(mut self, cols: usize) -> Problem {
        self.last().cols = Some(cols);
        self
    }

    /// More tolerance for the buffer that was added last: `absolute`.
    pub fn within(mut self, absolute: f64) -> Problem {
        let tolerance = self.last().tolerance;
        self.last().tolerance = tolerance.and_absolute(absolute);
        self
    }

    /// The launch in words: what the arguments are, and how many threads there are.
    pub fn words(&self) -> String {
        let words = self.arguments.iter().map(|argument| match *argument {
            Argument::Number(name, value) => format!("{name} = {value}"),
            Argument::Buffer(at) => {
                let Buffer { name, initial, cols, .. } = &self.buffers[at];
                match cols.filter(|&cols| cols > 0) {
                    Some(cols) => format!("{name}: {} x {cols}", initial.len() / cols),
                    None => format!("{name}: {}", initial.len()),
                }
            }
        });
        let (grid, block) = (self.config.grid, self.config.block);
        let extents = |dim: cuda_std::launch::Dim3| match (dim.y, dim.z) {
            (1, 1) => dim.x.to_string(),
            _ => format!("{} x {}", dim.x, dim.y),
        };
        let words: Vec<_> = words.collect();
        format!("{}; grid {}, block {}", words.join(", "), extents(grid), extents(block))
    }
}

/// Which sizes a problem has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// From 3 to 6.
    Few,
    /// A little less than a block.
    Below,
    /// Whole blocks.
    Whole,
    /// One more than whole blocks.
    Above,
    /// Anything.
    Any,
    /// Extents of 1.
    One,
    /// Whole blocks, the same for each seed: what is counted.
    Counted,
}

impl Sizes {
    /// All, in the order in which the judge tries them.
    pub const ALL: [Sizes; 7] =
        [Sizes::Few, Sizes::Below, Sizes::Whole, Sizes::Above, Sizes::Any, Sizes::One, Sizes::Counted];
}

/// Draws sizes and values from a seed.
pub struct Draw {
    state: u64,
    sizes: Sizes,
    /// The sizes drawn so far: a second one is of another kind.
    drawn: usize,
}

impl Draw {
    /// Draws from a seed. Counted problems do not depend on it.
    pub fn new(seed: u64, sizes: Sizes) -> Draw {
        let seed = if sizes == Sizes::Counted { 7 } else { seed };
        let mut draw = Draw { state: seed.wrapping_mul(2) ^ sizes as u64, sizes, drawn: 0 };
        draw.next();
        draw
    }

    /// Which sizes it draws.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// A number of 64 bits: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.next() % (most - least + 1) as u64) as usize
    }

    /// An extent, at most `blocks * unit + 1`, near multiples of `unit` or not.
    pub fn extent(&mut self, unit: usize, blocks: usize) -> usize {
        self.drawn += 1;
        let turn = (self.sizes as usize + 2 * (self.drawn - 1)) % 5;
        let is_one_kind = matches!(self.sizes, Sizes::Counted | Sizes::One);
        match if is_one_kind { self.sizes } else { Sizes::ALL[turn] } {
            Sizes::Few => self.between(unit.min(3), unit.min(6)),
            Sizes::One => 1,
            Sizes::Below => self.between((unit / 2).max(1), unit.max(2) - 1),
            Sizes::Whole => unit * self.between(1, blocks),
            Sizes::Above => unit * self.between(1, blocks) + 1,
            Sizes::Any => self.between(unit, unit * blocks),
            Sizes::Counted => unit * blocks,
        }
    }

    /// Multiples of a quarter between -100 and 100: their sums have no rounding errors, and few are equal.
    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.between(0, 800) as f32 / 4.0 - 100.0).collect()
    }

    /// Multiples of a quarter between -4 and 4: sums of a few thousand products have no rounding errors.
    pub fn small_floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.between(0, 32) as f32 / 4.0 - 4.0).collect()
    }

    /// Integers below `end`.
    pub fn integers(&mut self, len: usize, end: usize) -> Vec<u32> {
        (0..len).map(|_| self.between(0, end - 1) as u32).collect()
    }
}
