use ferrowarp_report::gallery::KernelCounts;

use super::*;

fn roofs() -> Roofs {
    Roofs {
        machine: "a GPU".to_owned(),
        bytes_per_second: 1e12,
        copy: None,
        flops: 10e12,
        tensor_flops: 100e12,
        latency: 650.0,
        one_load: 0.5e12,
    }
}

fn rung(microseconds: f64) -> Entry {
    Entry { name: "rung".to_owned(), at: 1.0, microseconds: Some(microseconds), ..Entry::default() }
}

fn kernel(name: &str, file: &str) -> KernelEntry {
    let counted = KernelCounts { bytes: 100.0, flop: 50.0, ..KernelCounts::default() };
    KernelEntry {
        name: name.to_owned(),
        file: file.to_owned(),
        problem: format!("{name} 8x8"),
        counted: Some(counted),
        ..KernelEntry::default()
    }
}

fn placed(counts: Vec<KernelEntry>, times: Vec<KernelEntry>, lessons: Vec<Entry>) -> Placed {
    let run = |entries| Run { machine: "GPU".to_owned(), entries, ..Run::default() };
    Placed { roofs: roofs(), counts: run(counts), times: Some(run(times)), lessons, reported: Vec::new() }
}

#[test]
fn without_a_time_a_kernel_has_an_intensity_alone() {
    let points =
        placed(vec![kernel("a", "gpu-kernels/ladders/src/softmax/k1_naive.rs")], Vec::new(), Vec::new())
            .points();
    assert_eq!((points[0].intensity(), points[0].seconds), (0.5, None));
    assert_eq!(FAMILIES[points[0].family].0, "softmax: ladder");
    assert_eq!(roofs().share(&points[0]), None);
}

/// The counts for 128 x 128 x 128, with a tile that is half padding, were twice the operations of the formula.
#[test]
fn a_lessons_kernel_has_the_operations_of_the_formula() {
    let entry =
        Entry { kernels: vec!["a".to_owned()], bytes: 1e6, memory_bytes: Some(5e5), flop: 7e6, ..rung(2.0) };
    let points = placed(vec![kernel("a", "")], Vec::new(), vec![entry]).points();
    assert_eq!((points[0].bytes, points[0].flop, points[0].seconds), (5e5, 7e6, Some(2e-6)));
}

#[test]
fn operations_of_a_formula_grow_with_the_bytes() {
    let counted = KernelEntry { bytes: Some(80.0), flop: Some(40.0), ..kernel("a", "") };
    let timed = KernelEntry { bytes: Some(1e9), microseconds: Some(2000.0), ..kernel("a", "") };
    let points = placed(vec![counted], vec![timed], Vec::new()).points();
    assert_eq!((points[0].bytes, points[0].flop, points[0].seconds), (1e9, 5e8, Some(2e-3)));
    // The bytes alone take a millisecond.
    assert_eq!(roofs().share(&points[0]), Some(0.5));
}

#[test]
fn a_kernel_without_a_formula_is_not_placed_by_its_time() {
    let timed = KernelEntry { bytes: Some(1e9), microseconds: Some(1.0), ..kernel("a", "") };
    assert_eq!(placed(vec![kernel("a", "")], vec![timed], Vec::new()).points()[0].seconds, None);
}

#[test]
fn a_kernel_above_its_roof_fails_the_check() {
    let entry = Entry { kernels: vec!["a".to_owned()], bytes: 1e9, ..rung(10.0) };
    let mut check = Check::default();
    placed(vec![kernel("a", "")], Vec::new(), vec![entry]).check(&mut check);
    let error = check.finish().unwrap_err().to_string();
    assert!(error.contains("a in the roofline is 10000.0 % of its roof"), "{error}");
}

#[test]
fn every_kernel_is_in_the_table_of_its_family() {
    let counts = vec![kernel("matmul_a", "gpu-kernels/lessons/src/gallery/matmul/naive.rs")];
    let points = placed(counts, Vec::new(), Vec::new()).points();
    assert_eq!(chart::draw(&points, &roofs()).unwrap(), None);
    let summary = summary(&points, &roofs());
    assert!(summary.contains("| gallery: matmul | 1 | 0.50 | 0.50 | 0.50 | 1 | 0 |  |"), "{summary}");
}

/// The reports that are committed, on their machine and on another one.
#[test]
fn other_reports_have_points_below_their_roofs() {
    let folder = workspace::root().join("docs/results");
    let points = reports::points(&folder, USUAL).unwrap();
    let has = |family: &str| points.iter().any(|point| point.family == family_of(family));
    for family in ["softmax: ladder", "matmul: tensor cores", "attention", "network: a step"] {
        assert!(has(family), "{family}");
    }
    let roofs = Roofs::new(USUAL, peaks::of(USUAL).unwrap(), None, LATENCY);
    let mut check = Check::default();
    for point in &points {
        check.share(|| format!("{} {}", point.name, point.problem), roofs.share(point).unwrap());
    }
    check.finish().unwrap();
    assert_eq!(reports::points(&folder, "another GPU").unwrap(), []);
}
