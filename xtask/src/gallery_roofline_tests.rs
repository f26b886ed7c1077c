use super::*;

const ROOFS: (f64, f64, f64) = (1e12, 10e12, 100e12);

fn roofs() -> Roofs {
    let (bytes_per_second, flops, tensor_flops) = ROOFS;
    Roofs { whose: "a GPU".to_owned(), bytes_per_second, flops, tensor_flops }
}

fn kernel(name: &str, file: &str) -> Kernel {
    let counted = Counted { bytes: 100.0, flop: 50.0, ..Counted::default() };
    Kernel {
        name: name.to_owned(),
        file: file.to_owned(),
        problem: format!("{name} 8x8"),
        counted: Some(counted),
        ..Kernel::default()
    }
}

fn run(entries: Vec<Kernel>) -> Run {
    let text = |text: &str| text.to_owned();
    let (machine, driver, date, commit) = (text("GPU"), text("1"), text("2026-01-01"), text("abc"));
    Run { machine, driver, date, commit, peaks: None, entries }
}

fn placed(counts: Vec<Kernel>, times: Vec<Kernel>) -> Vec<Point> {
    Placed { roofs: roofs(), counts: run(counts), times: Some(run(times)) }.points()
}

#[test]
fn without_a_time_a_kernel_has_an_intensity_alone() {
    let points = placed(vec![kernel("a", "gpu-kernels/src/softmax/k1_naive.rs")], Vec::new());
    assert_eq!((points[0].intensity(), points[0].seconds), (0.5, None));
    assert_eq!(FAMILIES[points[0].family].0, "softmax: the ladder");
    assert_eq!(roofs().share(&points[0]), None);
}

#[test]
fn a_time_with_known_bytes_has_the_intensity_that_was_counted() {
    let timed = Kernel { bytes: Some(1e9), microseconds: Some(2000.0), ..kernel("a", "") };
    let points = placed(vec![kernel("a", "")], vec![timed]);
    assert_eq!((points[0].bytes, points[0].flop, points[0].seconds), (1e9, 5e8, Some(2e-3)));
    // The bytes alone take a millisecond.
    assert_eq!(roofs().share(&points[0]), Some(0.5));
}

#[test]
fn a_products_operations_grow_with_its_terms() {
    let counted = Kernel { work: Some(8.0), ..kernel("a", "") };
    let timed = Kernel { work: Some(8e9), bytes: Some(1e6), microseconds: Some(1e4), ..kernel("a", "") };
    assert_eq!(placed(vec![counted], vec![timed])[0].flop, 50e9);
}

#[test]
fn nothing_is_placed_whose_bytes_nobody_knows() {
    let timed = Kernel { microseconds: Some(1.0), ..kernel("a", "") };
    assert_eq!(placed(vec![kernel("a", "")], vec![timed])[0].seconds, None);
}

#[test]
fn what_was_profiled_comes_first_and_the_longest_launch_counts() {
    let metrics: Vec<&str> =
        [TIME].into_iter().chain(BYTES).chain(OPERATIONS.map(|(name, _)| name)).collect();
    let launch = |time: u32| format!("\"0\",\"a\",\"{time}\",\"3,000\",\"1000\",1,2,4,0,0,8\n");
    let head =
        format!("==PROF==\n\"ID\",\"Kernel Name\",{}\n\"\",\"\"{}\n", metrics.join(","), ",".repeat(9));
    let mut times = run(vec![Kernel { bytes: Some(1.0), microseconds: Some(9.0), ..kernel("a", "") }]);
    times.add(&(head + &launch(500) + &launch(2000) + &launch(1000))).unwrap();
    let profiled = Profiled { bytes: 4000.0, flop: 1.0 + 2.0 + 8.0 + 16.0, microseconds: 2.0 };
    assert_eq!(times.entries[0].profiled, Some(profiled));
    let points = placed(vec![kernel("a", "")], times.entries);
    assert_eq!((points[0].bytes, points[0].flop, points[0].seconds), (4000.0, 27.0, Some(2e-6)));
}

#[test]
fn every_kernel_is_in_a_table_and_in_the_picture() {
    let counts = vec![
        kernel("matmul_a", "gpu-kernels/src/gallery/matmul/naive.rs"),
        Kernel {
            counted: Some(Counted { bytes: 9.0, ..Counted::default() }),
            ..kernel("copy", "src/copy.rs")
        },
    ];
    let points = placed(counts, Vec::new());
    let text = tables(&points, &roofs());
    assert!(text.contains("| `matmul_a` | 8x8 | 100 | 50 | 0.50 | not timed |"), "{text}");
    assert!(text.contains("| `copy` | 8x8 | 9 | 0 | 0 | not timed |"), "{text}");
    let svg = chart::draw(&points, &roofs()).unwrap();
    assert_eq!(svg.matches("<circle").count(), 2, "a mark each");
    assert!(summary(&points, &roofs()).contains("| gallery: products | 1 | 0.50 | 0.50 | 0.50 | 1 | 0 |  |"));
}
