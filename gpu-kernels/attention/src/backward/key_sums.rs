//! The gradients of a warp's keys and values, which [`super::fused`] adds up over tiles of queries.

use cuda_std::GpuFloat;
use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::mem::f32x2;
use cuda_std::mma::{self, FragmentA, FragmentC, mma_sync_tiles};
use cuda_std::shared::SharedPtr;
use cuda_std::thread::sync_named_aligned;
use cuda_std::wgmma::Element16;

use super::super::args::ALIGNED;
use super::super::tiles::{Lanes, add, pitch};
use super::args::{BackwardArgs, KeyTile};
use common_kernels::element::Number;

/// A tile of queries in shared memory, as a lane sees it.
#[derive(Clone, Copy)]
pub struct Queries<T, const SIZE: usize, const QUERIES: usize> {
    /// The first query.
    pub first: u32,
    /// Q.
    pub q_down: Lanes<T, SIZE>,
    /// Q.
    pub q_across: Lanes<T, SIZE>,
    /// The gradient of the result.
    pub d_down: Lanes<T, SIZE>,
    /// The gradient of the result.
    pub d_across: Lanes<T, SIZE>,
    /// The logarithms of the queries, and then their deltas.
    pub stats: SharedPtr<f32>,
    /// P, for warps that share it.
    pub p: Weights<T, QUERIES>,
    /// Written: dS.
    pub ds: Weights<T, QUERIES>,
}

/// P or dS in shared memory, keys by queries, as a lane sees it.
#[derive(Clone, Copy)]
pub struct Weights<T, const QUERIES: usize> {
    first: SharedPtr<T>,
    down: Lanes<T, QUERIES>,
}

impl<T, const QUERIES: usize> Weights<T, QUERIES> {
    /// A tile that starts there.
    #[inline(always)]
    pub fn new(tile: *mut T, lane: usize) -> Self {
        Self { first: tile.into(), down: Lanes::down(tile, lane) }
    }

    /// Returns the address of an element.
    #[inline(always)]
    fn at(&self, key: usize, query: usize) -> SharedPtr<T> {
        self.first.wrapping_byte_add(((key * pitch(QUERIES) + query) * size_of::<T>()) as u32)
    }
}

/// The part of a tile of keys that belongs to a warp.
#[derive(Clone, Copy)]
pub struct Place {
    /// The first key whose P the warp computes.
    pub own: usize,
    /// Which 16 of the queries it computes it for.
    pub part: usize,
    /// The first key whose gradients it adds up.
    pub shared: usize,
    /// The first column of the gradients that it adds up.
    pub column: usize,
    /// The barrier of the warps that add up the gradients of these keys, and their number of threads.
    pub barrier: [u32; 2],
}

/// The sums of a warp. Its methods are for all lanes of the warp together.
///
/// It computes P and dS of `M` times 16 keys, and adds up `O` times 8 columns of the gradients of `MM` times 16 keys, its own
/// first. If these are more, other warps compute the rest of P. `HELD` of the `STEPS` times 16 columns of K are in registers.
pub struct KeySums<
    'a,
    T,
    const SIZE: usize,
    const HELD: usize,
    const STEPS: usize,
    const M: usize,
    const O: usize,
    const MM: usize,
> {
    args: &'a BackwardArgs<T>,
    lane: usize,
    at: Place,
    tile: KeyTile,
    k_down: Lanes<T, SIZE>,
    k: [[FragmentA<T>; M]; HELD],
    v: [[FragmentA<T>; M]; STEPS],
    dk: [[FragmentC; O]; MM],
    dv: [[FragmentC; O]; MM],
}

impl<
    'a,
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const HELD: usize,
    const STEPS: usize,
    const M: usize,
    const O: usize,
    const MM: usize,
> KeySums<'a, T, SIZE, HELD, STEPS, M, O, MM>
{
    /// Starts with sums of zero.
    ///
    /// # Safety
    /// All lanes of the warp call this. K and V are complete; K stays as it is.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn new(
        args: &'a BackwardArgs<T>,
        tile: KeyTile,
        [k_down, v_down]: [Lanes<T, SIZE>; 2],
        lane: usize,
        at: Place,
    ) -> Self {
        let none = FragmentA::<T>::from_registers([0; 4]);
        let (mut k, mut v) = ([[none; M]; HELD], [[none; M]; STEPS]);
        let mut i = 0;
        while i < STEPS {
            let mut m = 0;
            while m < M {
                // SAFETY: all lanes of the warp execute this, and the tiles are complete.
                unsafe {
                    if HELD > 0 {
                        k[i][m] = k_down.a(at.own + 16 * m, 16 * i);
                    }
                    v[i][m] = v_down.a(at.own + 16 * m, 16 * i);
                }
                m += 1;
            }
            i += 1;
        }
        let zero = [[FragmentC::ZERO; O]; MM];
        Self { args, lane, at, tile, k_down, k, v, dk: zero, dv: zero }
    }

    /// The first key.
    #[inline(always)]
    fn first_key(&self) -> u32 {
        self.tile.first + self.at.own as u32
    }

    /// The first key of a fragment of the gradients in the tile.
    #[inline(always)]
    fn row(&self, m: usize) -> usize {
        let Place { own, shared, .. } = self.at;
        shared + (own - shared + 16 * m) % (16 * MM)
    }

    /// Adds `PARTS` times 16 queries, from number `first` of the tile on, and writes the warp's dS.
    ///
    /// # Safety
    /// All lanes of the warp call this. The tile is complete.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn add_queries<const QUERIES: usize, const PARTS: usize, const MASKED: bool>(
        &mut self,
        queries: &Queries<T, SIZE, QUERIES>,
        first: usize,
    ) {
        let Place { own, part, column, barrier: [barrier, threads], .. } = self.at;
        let c = first + 16 * part;
        let none = FragmentA::<T>::from_registers([0; 4]);
        let (row, pair) = (self.lane / 4, self.lane % 4 * 2);
        let (mut p, mut dp) = ([[FragmentC::ZERO; 2]; M], [[FragmentC::ZERO; 2]; M]);
        let mut i = 0;
        while i < STEPS {
            // SAFETY: all lanes of the warp execute this, and the tiles are complete.
            unsafe {
                let mut k = [none; M];
                let mut m = 0;
                while m < M {
                    k[m] = if HELD > 0 { self.k[i][m] } else { self.k_down.a(own + 16 * m, 16 * i) };
                    m += 1;
                }
                mma_sync_tiles(&k, &queries.q_across.b(c, 16 * i), &mut p);
                if M == 1 {
                    mma_sync_tiles(&self.v[i], &queries.d_across.b(c, 16 * i), &mut dp);
                }
            }
            i += 1;
        }
        if MASKED {
            hide(self.args, &mut p, self.first_key() + row as u32, queries.first + (c + pair) as u32);
        }
        let stats = queries.stats.wrapping_byte_add(((c + pair) * size_of::<f32>()) as u32);
        let numbers = |which: usize, n: usize| {
            let at = stats.wrapping_byte_add(((which * QUERIES + 8 * n) * size_of::<f32>()) as u32);
            // SAFETY: the tile has these numbers.
            unsafe { at.cast::<f32x2>().read() }
        };
        let (to_p, to_ds) = (queries.p.at(own + row, c + pair), queries.ds.at(own + row, c + pair));
        let after = |key: usize, query: usize| ((key * pitch(QUERIES) + query) * size_of::<T>()) as u32;
        let factor = self.args.scale * core::f32::consts::LOG2_E;
        let mut weights = [none; MM];
        let mut m = 0;
        while m < M {
            let mut words = [0; 4];
            let mut n = 0;
            while n < 2 {
                let (logs, FragmentC(x)) = (numbers(0, n), p[m][n]);
                let of = |x: f32, log: f32| ex2_approx_ftz(x.mul_add(factor, -log));
                let x = [of(x[0], logs.x), of(x[1], logs.y), of(x[2], logs.x), of(x[3], logs.y)];
                p[m][n] = FragmentC(x);
                [words[2 * n], words[2 * n + 1]] = [T::pack([x[0], x[1]]), T::pack([x[2], x[3]])];
                if MM > M {
                    // SAFETY: the lane alone writes these elements of P.
                    unsafe {
                        to_p.wrapping_byte_add(after(16 * m, 8 * n)).cast().write(words[2 * n]);
                        to_p.wrapping_byte_add(after(16 * m + 8, 8 * n)).cast().write(words[2 * n + 1]);
                    }
                }
                n += 1;
            }
            weights[m] = FragmentA::from_registers(words);
            m += 1;
        }
        // With more keys, P and dP together would take too many registers.
        let mut i = 0;
        while i < STEPS && M > 1 {
            // SAFETY: all lanes of the warp execute this, and the tiles are complete.
            unsafe { mma_sync_tiles(&self.v[i], &queries.d_across.b(c, 16 * i), &mut dp) };
            i += 1;
        }
        let mut ds = [none; MM];
        let mut m = 0;
        while m < M {
            let mut words = [0; 4];
            let mut n = 0;
            while n < 2 {
                let (deltas, FragmentC(p), FragmentC(x)) = (numbers(1, n), p[m][n], dp[m][n]);
                let first = [p[0] * (x[0] - deltas.x), p[1] * (x[1] - deltas.y)];
                let second = [p[2] * (x[2] - deltas.x), p[3] * (x[3] - deltas.y)];
                [words[2 * n], words[2 * n + 1]] = [T::pack(first), T::pack(second)];
                // SAFETY: the lane alone writes these elements of dS.
                unsafe {
                    to_ds.wrapping_byte_add(after(16 * m, 8 * n)).cast().write(words[2 * n]);
                    to_ds.wrapping_byte_add(after(16 * m + 8, 8 * n)).cast().write(words[2 * n + 1]);
                }
                n += 1;
            }
            ds[m] = FragmentA::from_registers(words);
            m += 1;
        }
        if MM > M {
            // SAFETY: all lanes of the warps with these keys execute this, and no others.
            unsafe { sync_named_aligned(barrier, threads) };
        }
        let mut part = 0;
        while part < PARTS {
            let c = if PARTS > 1 { first + 16 * part } else { c };
            // The warp's own P and dS are in registers.
            let mut m = if PARTS > 1 { 0 } else { M };
            while m < MM {
                let row = self.row(m);
                // SAFETY: all lanes of the warp execute this, and the tiles are complete.
                unsafe { (weights[m], ds[m]) = (queries.p.down.a(row, c), queries.ds.down.a(row, c)) };
                m += 1;
            }
            let mut n = 0;
            while n < O {
                // SAFETY: all lanes of the warp execute this, and the tiles are complete.
                unsafe {
                    add(&mut self.dv, &weights, &queries.d_down.b_trans(c, column + 8 * n), n);
                    add(&mut self.dk, &ds, &queries.q_down.b_trans(c, column + 8 * n), n);
                }
                n += 2;
            }
            part += 1;
        }
    }

    /// Returns whether every one of `count` queries, from the first on, sees all of the keys.
    #[inline(always)]
    pub fn hides_none(&self, first: u32, count: u32) -> bool {
        let (key, keys) = (self.first_key(), 16 * M as u32);
        let seen = first as i32 + self.args.diagonal - key as i32;
        let is_seen = seen >= keys as i32 - 1 && seen <= self.args.window - count as i32;
        is_seen && key + keys <= self.args.keys
    }

    /// Writes the gradients.
    ///
    /// # Safety
    /// No other code uses them.
    #[inline(always)]
    pub unsafe fn store(self) {
        let (args, KeyTile { head, batch, .. }) = (self.args, self.tile);
        let (row, pair) = (self.lane / 4, self.lane % 4 * 2);
        let mut m = 0;
        while m < MM {
            let mut n = 0;
            while n < O {
                let column = (self.at.column + 8 * n + pair) as u32;
                let (FragmentC([a, b, c, d]), FragmentC([e, f, g, h])) = (self.dk[m][n], self.dv[m][n]);
                let store = |key: u32, dk: [f32; 2], dv: [f32; 2]| {
                    if key < args.keys {
                        // SAFETY: the key's rows lie in their tensors, and the lane alone writes these elements.
                        unsafe {
                            let to = args.dk.add(args.dk_strides.row(batch, key, head));
                            store_pair(args, to, column, dk.map(|x| x * args.scale));
                            let to = args.dv.add(args.dv_strides.row(batch, key, head));
                            store_pair(args, to, column, dv);
                        }
                    }
                };
                let key = self.tile.first + (self.row(m) + row) as u32;
                store(key, [a, b], [e, f]);
                store(key + 8, [c, d], [g, h]);
                n += 1;
            }
            m += 1;
        }
    }
}

/// Replaces the logits of keys that a query does not see by -inf. `key` and `query` are those of the lane's first element.
#[inline(always)]
fn hide<T, const M: usize>(args: &BackwardArgs<T>, tile: &mut [[FragmentC; 2]; M], key: u32, query: u32) {
    let mut i = 0;
    while i < 8 * M {
        let (m, n, i_n) = (i / 8, i / 4 % 2, i % 4);
        let key = key + (16 * m + i_n / 2 * 8) as u32;
        let seen = query as i32 + (8 * n + i_n % 2) as i32 + args.diagonal - key as i32;
        if seen < 0 || seen >= args.window || key >= args.keys {
            tile[m][n].0[i_n] = f32::NEG_INFINITY;
        }
        i += 1;
    }
}

/// Writes two elements of a row, those that it has.
///
/// # Safety
/// The row lies in its tensor, and no other code uses these elements.
#[inline(always)]
pub unsafe fn store_pair<T: Number + Element16>(
    args: &BackwardArgs<T>,
    row: *mut T,
    column: u32,
    [a, b]: [f32; 2],
) {
    let to = row.wrapping_add(column as usize);
    // SAFETY: the row has the elements below the head size. An aligned row starts at a multiple of 16 bytes.
    unsafe {
        if args.flags & ALIGNED != 0 && column + 2 <= args.head_size {
            *to.cast::<u32>() = T::pack([a, b]);
            return;
        }
        if column < args.head_size {
            *to = T::from_f32(a);
        }
        if column + 1 < args.head_size {
            *to.add(1) = T::from_f32(b);
        }
    }
}
