//! Views of views, against arrays in memory.

use ferrowarp::device::Device;
use ferrowarp::{Cast, Shape, Tensor, TensorView};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// An array that does the same in memory.
#[derive(Clone)]
struct Array {
    shape: Vec<usize>,
    elements: Vec<f32>,
}

impl Array {
    /// The array of this shape whose elements are those at `from(index)`.
    fn of(&self, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let place =
            |index: Vec<usize>| index.iter().zip(&self.shape).fold(0, |at, (i, extent)| at * extent + i);
        let all = 0..shape.iter().product();
        let index = |mut at: usize| {
            let mut index: Vec<usize> = shape.iter().rev().map(|n| (at % n, at /= n).0).collect();
            index.reverse();
            index
        };
        let elements = all.map(|at| self.elements[place(from(&index(at)))]).collect();
        Self { shape, elements }
    }
}

fn shape_of(extents: &[usize]) -> Shape {
    match *extents {
        [a] => [a].into(),
        [a, b] => [a, b].into(),
        [a, b, c] => [a, b, c].into(),
        [a, b, c, d] => [a, b, c, d].into(),
        _ => unreachable!(),
    }
}

#[test]
fn chains_of_views_have_the_elements_of_arrays() {
    let device = Device::cpu();
    let seed: u64 = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    for problem in 0..2000 {
        let shape: Vec<usize> = (0..rng.random_range(1..=4)).map(|_| rng.random_range(0..4)).collect();
        let elements: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32).collect();
        let tensor = device.tensor(&elements, shape_of(&shape)).unwrap();
        let (mut view, mut array) = (tensor.view(), Array { shape, elements });
        for _ in 0..rng.random_range(1..5) {
            let shape = array.shape.clone();
            let [a, b] = [0; 2].map(|_| rng.random_range(0..shape.len()));
            match rng.random_range(0..4) {
                0 => {
                    let start = rng.random_range(0..=shape[a]);
                    let end = rng.random_range(start..=shape[a]);
                    view = view.slice(a, start..end).unwrap();
                    let mut sliced = shape;
                    sliced[a] = end - start;
                    array = array.of(sliced, |index| {
                        let mut index = index.to_vec();
                        index[a] += start;
                        index
                    });
                }
                1 => {
                    view = view.swap_axes(a, b).unwrap();
                    let mut swapped = shape;
                    swapped.swap(a, b);
                    array = array.of(swapped, |index| {
                        let mut index = index.to_vec();
                        index.swap(a, b);
                        index
                    });
                }
                2 => {
                    let mut repeated = shape.clone();
                    repeated.iter_mut().filter(|n| **n == 1).for_each(|n| *n = rng.random_range(0..3));
                    if repeated.len() < 4 && rng.random() {
                        repeated.insert(0, rng.random_range(0..3));
                    }
                    view = view.broadcast(shape_of(&repeated)).unwrap();
                    array = array.of(repeated, |index| {
                        let last = &index[index.len() - shape.len()..];
                        last.iter().zip(&shape).map(|(i, n)| if *n == 1 { 0 } else { *i }).collect()
                    });
                }
                _ => {
                    let flat = vec![shape.iter().product()];
                    if let Ok(reshaped) = view.reshape(shape_of(&flat)) {
                        (view, array.shape) = (reshaped, flat);
                    }
                }
            }
            let place = format!("problem {problem} of seed {seed}");
            assert_eq!(
                (view.shape().to_vec(), view.to_vec().unwrap()),
                (array.shape.clone(), array.elements.clone()),
                "{place}"
            );
            let copy: Tensor<f32> = Cast::new().run(&device, view).unwrap();
            assert_eq!(copy.to_vec().unwrap(), array.elements, "{place}");
        }
    }
    let one = device.upload(&[1.0f32]).unwrap();
    let huge = TensorView::new(&one, [1]).unwrap().broadcast([1 << 50, 4, 1]).unwrap();
    assert!(huge.to_vec().unwrap_err().to_string().contains("4503599627370496 elements"));
}
