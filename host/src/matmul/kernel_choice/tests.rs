//! What is chosen for some problems, without a GPU.

use cuda_std::half::bf16;
use cuda_std::launch::Limits;

use super::*;

fn profile(capability: u32) -> DeviceProfile {
    let limits = Limits { capability, runs_cpu_only: false, ..Limits::default() };
    DeviceProfile { limits, multiprocessors: 132, is_cpu: false }
}

fn chosen(m: u32, n: u32, k: u32) -> String {
    let problem = Problem { b_is_transposed: true, ..Problem::new(m, n, k) };
    KernelChoice::<bf16>::new(&profile(80), &problem).unwrap().to_string()
}

#[test]
fn shapes_get_tiles_that_fit_them() {
    assert_eq!(chosen(8192, 8192, 8192), "matmul_bf16_kk_256x128");
    let few_rows = chosen(16, 4096, 4096);
    assert!(few_rows.contains("_16x64") || few_rows.contains("_32x64"), "{few_rows}");
    assert!(chosen(64, 64, 16384).contains("splits of k"), "{}", chosen(64, 64, 16384));
}

fn on_hopper(problem: &Problem) -> String {
    KernelChoice::<bf16>::new(&profile(90), problem).unwrap().to_string()
}

#[test]
fn hopper_gets_warpgroups_for_large_matrices_and_clusters_for_few_rows() {
    let problem = Problem { b_is_transposed: true, ..Problem::new(8192, 8192, 8192) };
    let large = on_hopper(&problem);
    assert!(large.ends_with('w'), "{large}");
    let unaligned = Problem { is_aligned: [false; 2], has_whole_lines: [false; 2], ..problem };
    assert_eq!(on_hopper(&unaligned), format!("matmul_align_16 + {large} (A and B copied)"));
    let few_rows = on_hopper(&Problem { m: 8, ..problem });
    assert!(few_rows.starts_with("matmul_bf16_kk_16x"), "{few_rows}");
    let odd_columns = Problem { n: 32003, k: 4096, b_is_transposed: false, m: 5, ..unaligned };
    assert_eq!(on_hopper(&odd_columns), "matmul_fold_16 + matmul_bf16_kn_16x128w (8 splits of k)");
}

#[test]
fn copies_are_made_where_they_pay() {
    let across_lines =
        Problem { b_is_transposed: true, has_whole_lines: [false; 2], ..Problem::new(4104, 4104, 4104) };
    assert!(on_hopper(&across_lines).ends_with("copied)"), "{}", on_hopper(&across_lines));
}

#[test]
fn precision_and_layout_select_the_kernel() {
    let problem = Problem { a_is_transposed: true, ..Problem::new(4096, 4096, 4096) };
    let name = |problem: &Problem| KernelChoice::<f32>::new(&profile(80), problem).unwrap().to_string();
    assert_eq!(name(&problem), "matmul_f32x3_mn_128x64");
    let on_hopper = KernelChoice::<f32>::new(&profile(90), &problem).unwrap().to_string();
    assert_eq!(on_hopper, "matmul_split_f32 + matmul_f32x3_128x128w");
    let problem = Problem { precision: Precision::Tf32, ..problem };
    assert_eq!(name(&problem), "matmul_f32_mn_128x256");
    let problem = Problem { a_is_transposed: false, b_is_transposed: true, ..problem };
    let on_hopper = KernelChoice::<f32>::new(&profile(90), &problem).unwrap().to_string();
    assert_eq!(on_hopper, "matmul_f32_kk_128x256w");
    let on_hopper = |a_is_transposed| {
        let problem =
            Problem { a_is_transposed, precision: Precision::Tf32, ..Problem::new(2048, 2048, 2048) };
        KernelChoice::<f32>::new(&profile(90), &problem).unwrap().to_string()
    };
    assert_eq!(on_hopper(false), "matmul_f32_kn_256x128s");
    let both = on_hopper(true);
    assert!(both.starts_with("matmul_transpose_f32 + ") && both.ends_with("128s"), "{both}");
}

#[test]
fn a_gpu_without_tensor_cores_is_refused() {
    let error = KernelChoice::<f32>::new(&profile(75), &Problem::new(8, 8, 8)).unwrap_err().to_string();
    assert!(error.contains("compute capability 7.5") && error.contains("8.0 or later"), "{error}");
}
