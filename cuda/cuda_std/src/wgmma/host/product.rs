//! The matrix multiplication itself, in `f32`.

/// Rows of D.
pub(super) const ROWS: usize = 64;

/// The number of columns that are added at a time.
const WIDTH: usize = 8;

/// Computes `d[64, columns] += a[64, k] * b[k, columns]`; each element adds its products in the order of `k`.
pub(super) fn add(a: &[f32], b: &[f32], d: &mut [f32], columns: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { add_avx2(a, b, d, columns) };
    }
    add_rows::<4>(a, b, d, columns);
}

/// # Safety
/// The processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn add_avx2(a: &[f32], b: &[f32], d: &mut [f32], columns: usize) {
    add_rows::<8>(a, b, d, columns);
}

/// Computes `R` rows at a time, with their accumulators in registers.
#[inline(always)]
fn add_rows<const R: usize>(a: &[f32], b: &[f32], d: &mut [f32], columns: usize) {
    let k = a.len() / ROWS;
    for (a, d) in a.chunks_exact(R * k).zip(d.chunks_exact_mut(R * columns)) {
        for column in (0..columns).step_by(WIDTH) {
            let mut sums = [[0.0; WIDTH]; R];
            for (row, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(&d[row * columns + column..][..WIDTH]);
            }
            for (k_at, b) in b.chunks_exact(columns).enumerate() {
                let b: &[f32; WIDTH] = b[column..].first_chunk().expect("columns go by 8");
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = a[row * k + k_at];
                    for i in 0..WIDTH {
                        sums[i] += x * b[i];
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                d[row * columns + column..][..WIDTH].copy_from_slice(sums);
            }
        }
    }
}
