use plotters::prelude::Ranged;

use super::axis::Ruler;
use super::canvas::{TEXT, width_of};
use super::colour::{colours, of_words};
use super::lines::apart;
use super::*;

fn series(name: &str, family: Family) -> Series {
    Series::new(name, family, vec![(1024.0, 10.0), (2048.0, 900.0), (1.0, 1.0)])
}

fn lines() -> Lines {
    let mut lines = Lines::new(
        Axis::new("columns").format(binary),
        Axis::new("GB/s"),
        vec![series("k1", Family::Ours), series("torch", Family::Peers)],
    );
    lines.guides.push(Guide::Roof("memory".into(), 4800.0));
    lines.guides.push(Guide::Predicted("predicted".into(), vec![(1.0, 2.0), (2048.0, 800.0)]));
    lines
}

#[test]
fn a_chart_says_what_it_shows_and_names_every_line_and_roof() {
    let svg = Chart::of("k1 is slow", "on a GPU", Panel::Lines(lines())).svg().unwrap();
    for words in ["k1 is slow", "on a GPU", "columns", "GB/s", "k1", "torch", "memory", "predicted"] {
        assert!(svg.lines().any(|line| line.trim() == words), "{words} is missing");
    }
    for tick in ["1", "1 Ki", "2 Ki"] {
        assert!(svg.lines().any(|line| line.trim() == tick), "{tick} is missing");
    }
}

#[test]
fn no_two_series_share_a_colour() {
    for ours in 0..14 {
        for peers in 0..8 {
            let mut families = vec![Family::Ours; ours];
            families.extend(vec![Family::Peers; peers]);
            families.extend([Family::Other, Family::Other]);
            let colours = colours(&families);
            for (i, a) in colours.iter().enumerate() {
                assert!(colours[..i].iter().all(|b| a != b), "{ours} of ours, {peers} peers: {a:?}");
            }
        }
    }
}

#[test]
fn an_axis_is_logarithmic_over_more_than_a_decade() {
    let at =
        |values: &[f64], x: f64| Ruler::new(Scale::Auto, values, 0.0, false, 9).unwrap().map(&x, (0, 1000));
    assert_eq!([1.0, 10.0, 100.0].map(|x| at(&[1.0, 100.0], x)), [0, 500, 1000]);
    assert_eq!([1.0, 5.5, 10.0].map(|x| at(&[1.0, 10.0], x)), [0, 500, 1000]);
    assert_eq!([0.0, 500.0].map(|x| at(&[0.0, 1000.0], x)), [0, 500]);
}

#[test]
fn labels_of_ticks_do_not_overlap_and_both_ends_have_one() {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    let ruler = Ruler::new(Scale::Linear, &values, 0.0, false, 9).unwrap();
    let labelled = ruler.labelled(&values, number, 400);
    assert_eq!((labelled.first(), labelled.last()), (Some(&1.0), Some(&100.0)));
    for pair in labelled.windows(2) {
        let room = (width_of(&number(pair[0]), TEXT) + width_of(&number(pair[1]), TEXT)) / 2;
        let [from, to] = [pair[0], pair[1]].map(|value| ruler.map(&value, (0, 400)));
        assert!(to - from >= room, "{pair:?}");
    }
}

#[test]
fn names_are_moved_apart_and_stay_within_the_diagram() {
    for wanted in [vec![10, 11, 12, 200], vec![0, 0, 0], vec![299, 300, 300], vec![5, 100, 290], vec![]] {
        let heights = apart(&wanted, (0, 300));
        assert_eq!(heights.len(), wanted.len());
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 15), "{wanted:?}: {heights:?}");
        assert!(heights.iter().all(|height| (0..=300).contains(height)), "{wanted:?}: {heights:?}");
    }
    assert_eq!(apart(&[10, 100], (0, 300)), [10, 100]);
}

#[test]
fn what_cannot_be_drawn_is_an_error_that_says_so() {
    let error = |panel: Panel| Chart::of("t", "", panel).svg().unwrap_err().to_string();
    let none = Lines::new(Axis::new("x"), Axis::new("y"), vec![]);
    assert_eq!(error(Panel::Lines(none)), "drawing the chart \"t\" failed: it has no values; measure first");
    let bar =
        |value| Bar { name: "a".into(), family: Family::Ours, value, words: String::new(), predicted: None };
    let nan = Bars::new(Axis::new("us"), vec![bar(f64::NAN)]);
    assert!(error(Panel::Bars(nan)).contains("NaN is not a value"));
    let zero = Bars::new(Axis::new("us").scale(Scale::Log), vec![bar(0.0)]);
    assert!(error(Panel::Bars(zero)).contains("a logarithmic axis cannot show 0"));
    let empty = Chart { title: "t".into(), subtitle: String::new(), columns: 1, panels: vec![] };
    assert!(empty.svg().is_err());
}

#[test]
fn numbers_have_three_digits_and_separated_thousands() {
    let shown = [0.0, 0.031, 0.5, 2.25, 45.25, 1000.0, 12_672.0, 1e6].map(number);
    assert_eq!(shown, ["0", "0.031", "0.50", "2.25", "45.2", "1000", "12,672", "1,000,000"]);
    assert_eq!([1024.0, 1536.0, 3.0 * 1048576.0, 100.0].map(binary), ["1 Ki", "1536", "3 Mi", "100"]);
}

#[test]
fn bars_and_dots_leave_out_what_was_not_measured() {
    let rows = vec![Row { name: "4096x1024".into(), values: vec![Some(3.0), None] }];
    let contestants = vec![("ours".to_owned(), Family::Ours), ("quack".to_owned(), Family::Peers)];
    let roofs = vec![("roof".to_owned(), 5.0)];
    let dots = Dots { caption: String::new(), axis: Axis::new("GB/s"), contestants, rows, roofs, width: 600 };
    let svg = Chart::of("t", "", Panel::Dots(dots)).svg().unwrap();
    // The key has one of each contestant.
    assert_eq!(svg.matches("<circle ").count(), 3);
}

#[test]
fn predictions_are_strokes_that_a_line_explains() {
    let drawn = |kinds: &[bool]| {
        let mut lines = lines();
        let of_kind = |&is_relative: &bool| (2048.0, Predicted { value: 90.0, is_relative });
        lines.series[0].predicted = kinds.iter().map(of_kind).collect();
        Chart::of("t", "", Panel::Lines(lines)).svg().unwrap()
    };
    let count = |svg: &str| svg.matches("<rect ").count();
    let [none, absolute, relative, both] = [&[][..], &[false], &[true], &[false, true]].map(drawn);
    assert!(!none.contains("stroke: predicted") && absolute.contains("\nstroke: predicted\n"));
    assert!(
        relative.contains("\nbroken stroke: predicted from")
            && both.contains("\nstroke: predicted; broken stroke")
    );
    // Two parts for each.
    assert_eq!([&absolute, &relative, &both].map(|svg| count(svg) - count(&none)), [2, 2, 4]);
}

#[test]
fn bars_on_a_logarithmic_axis_are_dots() {
    let drawn = |scale, values: [f64; 2]| {
        let bar =
            |value| Bar { name: "a".into(), family: Family::Ours, value, words: "w".into(), predicted: None };
        let bars = Bars::new(Axis::new("us").scale(scale), values.map(bar).into());
        Chart::of("t", "", Panel::Bars(bars)).svg().unwrap().matches("<circle ").count()
    };
    assert_eq!(
        [drawn(Scale::Linear, [1.0, 2.0]), drawn(Scale::Auto, [1.0, 99.0]), drawn(Scale::Log, [1.0, 2.0])],
        [0, 2, 2]
    );
}

#[test]
fn pictures_have_colours_for_dark_pages() {
    let svg = "<svg width=\"9\">\n<rect fill=\"#FFFFFF\" stroke=\"none\"/>\n<text fill=\"#FFFFFF\">\n<text fill=\"#460028\">\n\
               <rect fill=\"#F5BE28\"/>\n</svg>\n";
    let themed = themed(svg);
    let rules: Vec<&str> = themed.lines().filter(|line| line.contains("]{")).collect();
    assert_eq!(rules[0], ":not(text)[fill=\"#FFFFFF\"]{fill:#0d1117}");
    assert!(rules.len() == 2 && rules[1].starts_with("text[fill=\"#460028\"]{fill:#"), "{rules:?}");
    assert_eq!(of_words(RGBColor(30, 30, 30)), RGBColor(30, 30, 30));
    assert!(of_words(RGBColor(245, 190, 40)).0 < 160);
}
