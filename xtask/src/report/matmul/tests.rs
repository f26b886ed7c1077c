use super::*;

/// The script's output: `times` are microseconds of the contestants at one shape.
fn file(dtype: &str, extents: [usize; 3], times: &[(&str, f64)]) -> String {
    let [m, n, k] = extents;
    let entries: Vec<String> = times
        .iter()
        .map(|(name, time)| {
            format!(
                "{{\"name\":\"{name}\",\"dtype\":\"{dtype}\",\"m\":{m},\"n\":{n},\"k\":{k},\"microseconds\":{time},\"samples\":7,\
                 \"sets\":2,\"relative_error\":1e-7,\"clock_and_power\":[1980.0,650.0]}}"
            )
        })
        .collect();
    format!(
        "{{\"machine\":\"NVIDIA H200\",\"driver\":\"580\",\"date\":\"2026-11-25\",\"commit\":\"0123456789\",\
         \"versions\":{{\"torch\":\"2.11\"}},\"missing\":{{}},\"entries\":[{}]}}",
        entries.join(",")
    )
}

fn results(files: &[String]) -> Results {
    let runs = files.iter().enumerate().map(|(number, text)| {
        let text = text.replace("\"missing\":{{}}", "\"missing\":{}");
        split(serde_json::from_str(&text).unwrap(), number).unwrap()
    });
    runs.reduce(|before, run| before.with(run).unwrap()).unwrap()
}

#[test]
fn a_peer_is_compared_with_ours_of_its_own_run() {
    let square = [8192; 3];
    let all = results(&[
        file("bf16", square, &[("matmul", 1600.0), ("cublaslt", 1700.0), ("r05_two_consumers", 2000.0)]),
        file("bf16", square, &[("matmul", 1800.0), ("compile", 1620.0)]),
    ]);
    let contests = all.contests("bf16");
    assert_eq!(contests.len(), 1);
    assert_eq!((contests[0].ours.run, contests[0].lead("compile")), (1, Some(0.9)));
    assert_eq!(contests[0].lead("cublaslt"), Some(1700.0 / 1600.0));
    assert_eq!(contests[0].ratio("cublaslt", "r05_two_consumers"), Some(0.85));
}

#[test]
fn pages_hold_every_figure() {
    let all = results(&[
        file(
            "bf16",
            [8192; 3],
            &[
                ("matmul", 1600.0),
                ("cublaslt", 1680.0),
                ("torch", 1760.0),
                ("r04_specialised", 2000.0),
                ("r05_two_consumers", 1700.0),
            ],
        ),
        file("bf16", [8, 28672, 8192], &[("matmul", 110.0), ("cublaslt", 121.0), ("copy", 220.0)]),
        file("f32", [4096; 3], &[("matmul", 1000.0), ("cublaslt", 2700.0)]),
    ]);
    check(&all).unwrap();
    let page = tables::full(&all);
    for line in [
        "| bf16 | all shapes | 1.07 x | 1.05 x | 8192x8192x8192 | 2 |",
        "| bf16 | few rows, up to 64 | 1.10 x | 1.10 x | 8x28672x8192 | 1 |",
        "| 8192x8192x8192 | `` | 1600.0 us | 687 | 1.05 x | 1.10 x | 1980 MHz | 650 W |",
        "| 8192x8192x8192 | r05_two_consumers | 1700.0 us | 647 | 0.99 x |",
        "| 8x28672x8192 | bf16 | 110.0 us | 4276 | 100.1 % | 1.10 x |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let ladder = tables::ladder(std::slice::from_ref(&all));
    let section = |name: &str| &ladder.iter().find(|(section, _)| section == name).unwrap().1;
    assert!(section("r05_two_consumers").contains("| 1.18 x | 0.99 x |"), "{}", section("r05_two_consumers"));
    assert!(section("three_products").contains("| 4096x4096x4096 | 1000.0 us | 137 | 2.70 x |"));
    // The page has a place for each section.
    let page = std::fs::read_to_string(workspace::root().join("docs").join(LADDER)).unwrap();
    for (name, section) in &ladder {
        measure::with_section(LADDER, &page, name, section).unwrap();
    }
    chart::squares(&all).unwrap();
}

#[test]
fn impossible_rates_are_refused() {
    let all = results(&[file("bf16", [8192; 3], &[("matmul", 1000.0), ("cublaslt", 1680.0)])]);
    let error = check(&all).unwrap_err().to_string();
    assert!(error.contains("matmul, bf16 8192x8192x8192 is 1100 TFLOP/s, above the peak of 989"), "{error}");
}
