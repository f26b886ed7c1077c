//! The operations that users see, on the CPU.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::RawBuffer;
use ferrowarp::device::Device;
use ferrowarp::softmax::KernelChoice;
use ferrowarp::softmax::cross_entropy::Outputs;
use ferrowarp::{CrossEntropy, Error, Sample, Softmax, Tensor, TensorView, TensorViewMut, TopK};
use gpu_kernels::softmax::forward::ForwardLaunch;

#[test]
fn halves_are_computed_in_f32_and_given_as_either() {
    let device = Device::cpu();
    let inp = device.tensor(&[0.5f32, -1.0, 2.0].map(f16::from_f32), [1, 3]).unwrap();
    let mut single = Tensor::<f32>::zeros(&device, [1, 3]).unwrap();
    Softmax::new().run_into(&device, &mut single, &inp).unwrap();
    let half = Softmax::new().run(&device, &inp).unwrap().to_vec().unwrap();
    let single = single.to_vec().unwrap();
    assert_eq!(half, [single[0], single[1], single[2]].map(f16::from_f32));
    assert!((single.iter().sum::<f32>() - 1.0).abs() < 1e-6 && single[2] > single[0]);
}

#[test]
fn a_returned_result_is_the_written_one() {
    let device = Device::cpu();
    let logits: Vec<f32> = (0..3 * 7).map(|i| (i * 5 % 11) as f32).collect();
    let logits = device.upload(&logits).unwrap();
    // Rows with gaps, whose softmax has none.
    let inp = TensorView::with_strides(&logits, [3, 5], [7, 1]).unwrap();
    let mut out = Tensor::<f32>::zeros(&device, [3, 5]).unwrap();
    for softmax in [Softmax::new(), Softmax::new().log().scale(0.5)] {
        softmax.run_into(&device, &mut out, inp).unwrap();
        assert_eq!(softmax.run(&device, inp).unwrap().to_vec().unwrap(), out.to_vec().unwrap());
    }
    for shape in [[0, 5], [5, 0]] {
        let nothing = Softmax::new().run(&device, TensorView::new(&logits, shape).unwrap()).unwrap();
        assert_eq!((nothing.shape(), nothing.buffer().len()), (shape.into(), 0));
    }
    let error = Softmax::new().scale(0.0).run(&device, inp).unwrap_err();
    assert!(
        error.to_string().contains("softmax failed: the scale is 0; it must be in (0, 2^127]"),
        "{error}"
    );
}

/// A tensor of more axes gives the bits of its rows as a matrix, and what there is for each row has the shape of the axes before.
#[test]
fn the_axes_before_the_last_one_are_rows() {
    let device = Device::cpu();
    let numbers: Vec<f32> = (0..2 * 3 * 7).map(|i| (i * 5 % 11) as f32 / 3.0).collect();
    let tensor = device.tensor(&numbers, [2, 3, 7]).unwrap();
    let matrix = tensor.view().reshape([6, 7]).unwrap();
    let classes = device.tensor(&[1u8, 2, 3, 4, 5, 6], [2, 3]).unwrap();
    let softmax = Softmax::new().run(&device, &tensor).unwrap();
    assert_eq!(softmax.shape(), [2, 3, 7].into());
    assert_eq!(softmax.to_vec().unwrap(), Softmax::new().run(&device, matrix).unwrap().to_vec().unwrap());
    let (losses, gradient) = CrossEntropy::new().forward(&device, &tensor, &classes).unwrap();
    assert_eq!((losses.shape(), gradient.shape()), ([2, 3].into(), [2, 3, 7].into()));
    // Vectors of one axis fit, too.
    let of_matrix = CrossEntropy::new().run(&device, &tensor, classes.buffer()).unwrap();
    assert_eq!(of_matrix.to_vec().unwrap(), losses.to_vec().unwrap());
    let (values, indices) = TopK::new(2).run(&device, &tensor).unwrap();
    assert_eq!((values.shape(), indices.shape()), ([2, 3, 2].into(), [2, 3, 2].into()));
    let tokens = Sample::new().seed(3).run(&device, &tensor).unwrap();
    assert_eq!(tokens.shape(), [2, 3].into());
    assert_eq!(
        tokens.to_vec().unwrap(),
        Sample::new().seed(3).run(&device, matrix).unwrap().to_vec().unwrap()
    );
    let row = Sample::new().run(&device, tensor.buffer()).unwrap();
    assert_eq!(row.shape(), [1].into());
    let error = Softmax::new().run(&device, tensor.t()).unwrap_err().to_string();
    let words = "softmax failed: the input has the shape [2, 7, 3] and strides of [21, 1, 7]; it needs rows";
    assert!(error.starts_with(words), "{error}");
}

#[test]
fn a_part_of_a_matrix_is_replaced_in_place() {
    let device = Device::cpu();
    let mut buffer = device.upload(&[bf16::from_f32(9.0); 12]).unwrap();
    let matrix = TensorViewMut::with_strides(buffer.view_mut(1..).unwrap(), [2, 2], [5, 1]).unwrap();
    Softmax::new().run_in_place(&device, matrix).unwrap();
    let values: Vec<f32> = buffer.to_vec().unwrap().into_iter().map(bf16::to_f32).collect();
    assert_eq!(values, [9.0, 0.5, 0.5, 9.0, 9.0, 9.0, 0.5, 0.5, 9.0, 9.0, 9.0, 9.0]);
}

/// Elements past the 2^31st.
#[test]
fn elements_behind_the_2_to_the_31st_are_found() {
    let device = Device::cpu();
    let (rows, cols, stride) = (3, 37, (1usize << 30) + 3);
    let mut buffer = device.alloc_zeroed::<f16>((rows - 1) * stride + cols).unwrap();
    let logits =
        |row: usize| -> Vec<f16> { (0..cols).map(|i| f16::from_f32((row * i) as f32 / 16.0)).collect() };
    for row in 0..rows {
        let start = row * stride;
        buffer.view_mut(start..start + cols).unwrap().copy_from(&logits(row)).unwrap();
    }
    let matrix = TensorViewMut::with_strides(&mut buffer, [rows, cols], [stride, 1]).unwrap();
    Softmax::new().run_in_place(&device, matrix).unwrap();
    for row in 0..rows {
        let mut alone = device.upload(&logits(row)).unwrap();
        Softmax::new().run_in_place(&device, &mut alone).unwrap();
        let start = row * stride;
        let got = buffer.view(start..start + cols).unwrap().to_vec().unwrap();
        for (i, (got, want)) in got.into_iter().zip(alone.to_vec().unwrap()).enumerate() {
            // Another alignment adds in another order: a unit of the last place of 11 bits.
            let (got, want) = (got.to_f32(), want.to_f32());
            assert!((got - want).abs() <= want / 1024.0, "row {row}, column {i}: {got}, not {want}");
        }
    }
}

#[test]
fn every_choice_runs_again_and_again() {
    let device = Device::cpu();
    for choice in KernelChoice::<f32>::every(&(&device).into(), 2, 3).unwrap() {
        assert_eq!(choice.shape(), [2, 3]);
        for shift in [0.0, 100.0] {
            let inp = device.upload(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0].map(|x: f32| x + shift)).unwrap();
            let mut out = device.alloc_zeroed::<f32>(6).unwrap();
            let mut pairs = device.alloc_zeroed::<u64>(choice.workspace_bytes().div_ceil(8)).unwrap();
            let args = ForwardLaunch {
                pairs: RawBuffer::<u64>::written(&mut pairs).cast(),
                ..ForwardLaunch::new(RawBuffer::written(&mut out), RawBuffer::read(&inp), [3, 3])
            };
            // SAFETY: matrices of the choice's shape, and pairs of its size.
            unsafe { choice.launch(&device, args, &Softmax::new().log()) }.unwrap();
            let out = out.to_vec().unwrap();
            assert!(out.iter().all(|x| (x + 3f32.ln()).abs() < 1e-6), "{choice:?}: {out:?}");
        }
    }
}

#[test]
fn a_tensor_that_does_not_fit_is_refused_in_words() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(12).unwrap();
    let inp = device.alloc_zeroed::<f32>(12).unwrap();
    let refused = |result: Result<(), Error>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    };
    refused(TensorView::new(&inp, [3, 5]).map(drop), "does not fit a view of 12 elements; it needs 15");
    let of = |stride| TensorView::with_strides(&inp, [3, 4], [stride, 1]);
    refused(of(5).map(drop), "of shape [3, 4] with strides of [5, 1] does not fit a view of 12 elements");
    let overlapping = Softmax::new().run(&device, of(3).unwrap()).map(drop);
    refused(
        overlapping,
        "softmax failed: the input has the shape [3, 4] and strides of [3, 1]; it needs rows",
    );
    refused(TensorViewMut::new(&mut buffer, [usize::MAX, 2]).map(drop), "does not fit a view");
    let inp = TensorView::new(&inp, [4, 3]).unwrap();
    let mut out = TensorViewMut::new(&mut buffer, [3, 4]).unwrap();
    let words = "softmax failed: the output has the shape [3, 4]; it needs [4, 3]";
    refused(Softmax::new().run_into(&device, &mut out, inp), words);
    let words = "softmax failed: the scale is 0; it must be in (0, 2^127]; for a temperature t, pass 1 / t";
    refused(Softmax::new().scale(0.0).run_in_place(&device, &mut out), words);
    let words = "softmax backward failed: the gradient of the input has the shape [3, 4]; it needs [4, 3]";
    refused(Softmax::new().backward_into(&device, &mut out, inp, inp), words);
    let words = "softmax backward failed: the scale is -1; ";
    refused(Softmax::new().scale(-1.0).backward(&device, inp, inp).map(drop), words);
}

#[test]
fn without_elements_nothing_happens() {
    let device = Device::cpu();
    for (rows, cols) in [(0, 0), (0, 5), (5, 0)] {
        let mut tensor = Tensor::<f32>::zeros(&device, [rows, cols]).unwrap();
        Softmax::new().run_in_place(&device, &mut tensor).unwrap();
        let choice = KernelChoice::<f32>::new(&(&device).into(), rows, cols).unwrap();
        assert_eq!((choice.config(), choice.kernels().count()), (None, 0));
    }
}

#[test]
fn gradients_in_place_are_those_apart() {
    let device = Device::cpu();
    let y = device.tensor(&[0.25f32, 0.75, 0.5, 0.5], [2, 2]).unwrap();
    let mut dy = device.tensor(&[1.0f32, 0.0, 3.0, 3.0], [2, 2]).unwrap();
    let softmax = Softmax::new().scale(2.0);
    let dx = softmax.backward(&device, &dy, &y).unwrap();
    softmax.backward_in_place(&device, &mut dy, &y).unwrap();
    assert_eq!(dx.to_vec().unwrap(), [0.375, -0.375, 0.0, 0.0]);
    assert_eq!(dx.to_vec().unwrap(), dy.to_vec().unwrap());
    let other = dx.view().reshape([1, 4]).unwrap();
    let error = softmax.backward_in_place(&device, &mut dy, other).unwrap_err().to_string();
    let words = "softmax backward failed: the gradient of the result has the shape [2, 2]; it needs [1, 4]";
    assert_eq!(error, words);
}

#[test]
fn cross_entropy_gives_what_is_asked_for() {
    let device = Device::cpu();
    let mut logits = device.tensor(&[0.0f32, 0.0, 5.0, 5.0], [2, 2]).unwrap();
    let targets = device.upload(&[0u8, 7]).unwrap();
    let mut losses = device.alloc_zeroed::<f32>(2).unwrap();
    let mut lse = device.alloc_zeroed::<f32>(2).unwrap();
    let mut correct = device.alloc_zeroed::<u32>(2).unwrap();
    let gradients = device.upload(&[3.0f32, 1.0]).unwrap();
    let operation = CrossEntropy::new().ignore_index(7).gradient_scale(2.0).row_gradients(&gradients);
    let outputs = Outputs::new(&mut losses).log_sum_exp(&mut lse).correct(&mut correct);
    operation.run_in_place(&device, outputs, &mut logits, &targets).unwrap();
    let (losses_of_rows, lse) = (losses.to_vec().unwrap(), lse.to_vec().unwrap());
    assert!((losses_of_rows[0] - 2f32.ln()).abs() < 1e-6 && losses_of_rows[1] == 0.0, "{losses_of_rows:?}");
    assert!((lse[0] - 2f32.ln()).abs() < 1e-6 && (lse[1] - 5.0 - 2f32.ln()).abs() < 1e-6, "{lse:?}");
    assert_eq!(correct.to_vec().unwrap(), [1, 0]);
    assert_eq!(logits.to_vec().unwrap(), [-3.0, 3.0, 0.0, 0.0]);

    let refused = |result: Result<(), Error>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(&format!("cross entropy failed: {words}")), "{error}");
    };
    let row = logits.view().reshape([1, 4]).unwrap();
    let words = "the loss vector has the shape [2]; it needs [1]";
    refused(CrossEntropy::new().run_into(&device, &mut losses, row, &targets), words);
    let few = targets.view(..1).unwrap();
    let words = "the target vector has the shape [1]; it needs [2]";
    refused(CrossEntropy::new().run(&device, &logits, few).map(drop), words);
    let words = "the row gradient vector has the shape [2]; it needs [1]";
    refused(operation.run(&device, row, few).map(drop), words);
    let (mut gradient, mut logits) = (Tensor::zeros(&device, [2, 2]).unwrap(), logits);
    let outputs = Outputs::new(&mut losses).gradient(&mut gradient);
    let words = "there is a second gradient; the gradient replaces the logits";
    refused(CrossEntropy::new().run_in_place(&device, outputs, &mut logits, &targets), words);
    let mut other = Tensor::zeros(&device, [1, 4]).unwrap();
    let outputs = Outputs::new(&mut losses).gradient(&mut other);
    let words = "the gradient has the shape [1, 4]; it needs [2, 2]";
    refused(CrossEntropy::new().run_into(&device, outputs, &logits, &targets), words);
}
