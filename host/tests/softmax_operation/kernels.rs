//! Every kernel against the oracle on the executor, whatever the operation would choose.

use ferrowarp::softmax::Options;
use ferrowarp_cases::reference::Number;

use crate::cases::{
    Case, assert_right, cluster_threads, complaint, every, executor, for_each_pair, names, nearest, run,
    run_in_place,
};
use ferrowarp_cases::rows::{edge_rows, logits};

fn converted<T: Number>(rows: usize, cols: usize) -> Vec<T> {
    logits(rows, cols).into_iter().map(nearest).collect()
}

/// Distances from a boundary of output and input, elements between rows, and options, that go round from case to case.
fn varied(case: Case, i: usize) -> Case {
    const OFFSETS: [[usize; 2]; 5] = [[0, 0], [1, 1], [3, 0], [0, 3], [1, 3]];
    const GAPS: [[usize; 2]; 4] = [[0, 0], [5, 8], [0, 3], [16, 0]];
    let options = match i % 6 {
        1 => Options::new().log(),
        2 => Options::new().scale(0.37),
        3 => Options::new().zero_masked(),
        4 => Options::new().log().scale(2.5).zero_masked(),
        _ => Options::new(),
    };
    let ([out, inp], [out_gap, inp_gap]) = (OFFSETS[i % 5], GAPS[i % 4]);
    case.at(out, inp).apart(out_gap, inp_gap).with(options)
}

/// All choices at these widths, in all pairs of types; `rows` for the kernels of a block, and few for many blocks, which
/// cost the executor most, as do the threads of a cluster.
fn assert_all_right(widths: &[usize], rows: usize, most_of_a_cluster: u32) {
    let on = executor();
    for_each_pair!(|forward| {
        let mut cases = 0;
        for &cols in widths {
            for (rows, has_many) in [(rows, false), (2, true)] {
                let logits = converted::<I>(rows, cols);
                for choice in
                    every::<I, O>(rows, cols).filter(|choice| cluster_threads(choice) <= most_of_a_cluster)
                {
                    if has_many == (choice.config().unwrap().grid.x > rows as u32) {
                        assert_right::<I, O>(&on, &choice, &varied(Case::new(rows, cols), cases), &logits);
                        cases += 1;
                    }
                }
            }
        }
        assert!(cases > widths.len() * (forward.clusters.len() + 2), "{cases}");
    });
}

#[test]
fn narrow_rows_agree_with_the_oracle() {
    assert_all_right(&[1, 2, 3, 31, 32, 33, 127], 14, 2048);
}

#[test]
fn rows_of_some_warps_agree_with_the_oracle() {
    assert_all_right(&[1023, 1024, 1025, 4099], 7, 4096);
}

#[test]
fn wide_rows_agree_with_the_oracle() {
    assert_all_right(&[33_001, 65_537], 2, 8192);
}

/// The widest row of every kernel, and one more, which it must not get.
#[test]
fn every_kernel_is_reached_at_its_widest() {
    let on = executor();
    for_each_pair!(|forward| {
        for variant in forward.variants.iter().chain(forward.clusters) {
            let (name, vector) = (variant.meta.name, 16 / size_of::<I>());
            let widest = variant.elements as usize + vector - 1;
            let choice =
                |cols| every::<I, O>(3, cols).find(|choice| choice.kernels().any(|k| k.name == name));
            let is_cluster = variant.meta.min_arch > 0;
            assert!(is_cluster || choice(widest + 1).is_none(), "{name}");
            let choice = choice(widest).unwrap_or_else(|| panic!("{name} holds {widest}"));
            assert_right::<I, O>(&on, &choice, &Case::new(3, widest).at(1, 1), &converted::<I>(3, widest));
        }
    });
}

#[test]
fn edge_rows_come_out_as_defined() {
    let on = executor();
    for_each_pair!(|forward| {
        for cols in [133, 2053] {
            let rows = edge_rows(cols);
            let logits: Vec<I> = rows.iter().flat_map(|(_, row)| row).map(|&x| nearest(x)).collect();
            let choices = every::<I, O>(rows.len(), cols).filter(|choice| cluster_threads(choice) <= 2048);
            for (i, choice) in choices.enumerate() {
                for options in [Options::new(), Options::new().log(), Options::new().zero_masked()] {
                    let case = Case::new(rows.len(), cols).at(i % 4, i % 3).with(options);
                    let got: Vec<O> = run(&on, &choice, &case, &logits).unwrap();
                    let one = Case { rows: 1, ..case };
                    let rows = rows.iter().zip(got.chunks(cols)).zip(logits.chunks(cols));
                    for (((name, _), got), logits) in rows {
                        assert_eq!(
                            complaint(got, &one, logits),
                            None,
                            "{:?}: {name}: {case}",
                            names(&choice)
                        );
                    }
                }
            }
        }
    });
}

/// The same bits in place as from one matrix into another that lies as far from a boundary.
#[test]
fn in_place_gives_the_same() {
    of_type::<f32>();
    of_type::<cuda_std::f16>();
    of_type::<cuda_std::bf16>();

    fn of_type<T: Number>() {
        let on = executor();
        for (cols, offset, gap) in [(5, 1, 0), (133, 3, 3), (1025, 0, 7), (4099, 1, 0)] {
            let case = Case::new(3, cols).at(offset, offset).apart(gap, gap);
            let logits = converted::<T>(3, cols);
            for choice in every(3, cols) {
                let apart: Vec<T> = run(&on, &choice, &case, &logits).unwrap();
                let in_place = run_in_place(&on, &choice, &case, &logits).unwrap();
                assert!(
                    bytemuck::cast_slice::<T, u8>(&apart) == bytemuck::cast_slice::<T, u8>(&in_place),
                    "{:?} {case}",
                    names(&choice)
                );
            }
        }
    }
}
