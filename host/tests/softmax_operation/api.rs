//! The functions and types that users see, on the CPU.

use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::softmax::{
    CrossEntropy, KernelChoice, Matrix, MatrixMut, Options, SoftmaxError, softmax, softmax_backward,
    softmax_backward_in_place, softmax_in_place, softmax_to_buffer,
};

#[test]
fn halves_are_computed_in_f32_and_given_as_either() {
    let device = Device::cpu();
    let logits = [0.5f32, -1.0, 2.0].map(f16::from_f32);
    let inp = device.upload(&logits).unwrap();
    let (mut half, mut single) =
        (device.alloc_zeroed::<f16>(3).unwrap(), device.alloc_zeroed::<f32>(3).unwrap());
    let options = Options::new();
    let matrix = Matrix::new(&inp, 1, 3).unwrap();
    softmax(&device, &mut MatrixMut::new(&mut half, 1, 3).unwrap(), &matrix, &options).unwrap();
    softmax(&device, &mut MatrixMut::new(&mut single, 1, 3).unwrap(), &matrix, &options).unwrap();
    let (half, single) = (half.to_vec().unwrap(), single.to_vec().unwrap());
    assert_eq!(half, [single[0], single[1], single[2]].map(f16::from_f32));
    assert!((single.iter().sum::<f32>() - 1.0).abs() < 1e-6 && single[2] > single[0]);
}

#[test]
fn an_allocated_output_is_that_of_softmax() {
    let device = Device::cpu();
    let logits: Vec<f32> = (0..3 * 7).map(|i| (i * 5 % 11) as f32).collect();
    let logits = device.upload(&logits).unwrap();
    // Rows with gaps, whose softmax has none.
    let inp = Matrix::new(&logits, 3, 5).unwrap().with_stride(7).unwrap();
    let mut out = device.alloc_zeroed::<f32>(3 * 5).unwrap();
    for options in [Options::new(), Options::new().log().scale(0.5)] {
        softmax(&device, &mut MatrixMut::new(&mut out, 3, 5).unwrap(), &inp, &options).unwrap();
        let allocated: Buffer<f32> = softmax_to_buffer(&device, &inp, &options).unwrap();
        assert_eq!(allocated.to_vec().unwrap(), out.to_vec().unwrap());
    }
    let half: Buffer<f32> = softmax_to_buffer(
        &device,
        &Matrix::new(&device.upload(&[f16::ONE; 2]).unwrap(), 1, 2).unwrap(),
        &Options::new(),
    )
    .unwrap();
    assert_eq!(half.to_vec().unwrap(), [0.5, 0.5]);
    for (rows, cols) in [(0, 5), (5, 0)] {
        let inp = Matrix::new(&logits, rows, cols).unwrap();
        let nothing: Buffer<f32> = softmax_to_buffer(&device, &inp, &Options::new()).unwrap();
        assert_eq!(nothing.len(), 0);
    }
    let inp = Matrix::new(&logits, 1, 7).unwrap();
    let error = softmax_to_buffer::<f32, f32>(&device, &inp, &Options::new().scale(0.0)).unwrap_err();
    assert!(error.to_string().contains("softmax with a scale of 0 failed"), "{error}");
}

#[test]
fn a_part_of_a_matrix_is_replaced_in_place() {
    let device = Device::cpu();
    let mut buffer = device.upload(&[bf16::from_f32(9.0); 12]).unwrap();
    let view = buffer.view_mut(1..).unwrap();
    let mut matrix = MatrixMut::new(view, 2, 2).unwrap().with_stride(5).unwrap();
    assert_eq!((matrix.rows(), matrix.cols(), matrix.stride()), (2, 2, 5));
    softmax_in_place(&device, &mut matrix, &Options::new()).unwrap();
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
    let mut matrix = MatrixMut::new(buffer.view_mut(..).unwrap(), rows, cols).unwrap();
    matrix = matrix.with_stride(stride).unwrap();
    softmax_in_place(&device, &mut matrix, &Options::new()).unwrap();
    for row in 0..rows {
        let mut alone = device.upload(&logits(row)).unwrap();
        softmax_in_place(&device, &mut MatrixMut::new(&mut alone, 1, cols).unwrap(), &Options::new())
            .unwrap();
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
    let options = Options::new().log();
    for choice in KernelChoice::<f32>::every(&(&device).into(), 2, 3).unwrap() {
        assert_eq!(choice.shape(), [2, 3]);
        for shift in [0.0, 100.0] {
            let inp = device.upload(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0].map(|x: f32| x + shift)).unwrap();
            let mut out = device.alloc_zeroed::<f32>(6).unwrap();
            let (mut to, inp) = (MatrixMut::new(&mut out, 2, 3).unwrap(), Matrix::new(&inp, 2, 3).unwrap());
            choice.run(&device, &mut to, &inp, &options).unwrap();
            let out = out.to_vec().unwrap();
            assert!(out.iter().all(|x| (x + 3f32.ln()).abs() < 1e-6), "{choice:?}: {out:?}");
        }
    }
}

#[test]
fn a_matrix_that_does_not_fit_is_refused_in_words() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(12).unwrap();
    let inp = device.alloc_zeroed::<f32>(12).unwrap();
    let refused = |error: Result<(), SoftmaxError>, words: &str| {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    };
    refused(Matrix::new(&inp, 3, 5).map(|_| ()), "does not fit a view of 12 elements");
    refused(Matrix::new(&inp, 3, 4).unwrap().with_stride(5).map(|_| ()), "a row every 5 elements");
    refused(Matrix::new(&inp, 3, 4).unwrap().with_stride(3).map(|_| ()), "make the stride at least 4");
    refused(MatrixMut::new(&mut buffer, usize::MAX, 2).map(|_| ()), "does not fit a view");
    let (mut out, inp) = (MatrixMut::new(&mut buffer, 3, 4).unwrap(), Matrix::new(&inp, 4, 3).unwrap());
    refused(
        softmax(&device, &mut out, &inp, &Options::new()),
        "softmax of 4 x 3 failed: the output is 3 x 4",
    );
    refused(
        softmax_in_place(&device, &mut out, &Options::new().scale(0.0)),
        "softmax with a scale of 0 failed",
    );
    let choice = KernelChoice::<f32>::new(&(&device).into(), 3, 5).unwrap();
    refused(choice.run_in_place(&device, &mut out, &Options::new()), "the matrix is 3 x 4");
}

#[test]
fn without_elements_nothing_happens() {
    let device = Device::cpu();
    let mut nothing = device.alloc_zeroed::<f32>(0).unwrap();
    for (rows, cols) in [(0, 0), (0, 5), (5, 0)] {
        let mut matrix = MatrixMut::new(&mut nothing, rows, cols).unwrap();
        softmax_in_place(&device, &mut matrix, &Options::new()).unwrap();
        let choice = KernelChoice::<f32>::new(&(&device).into(), rows, cols).unwrap();
        assert_eq!((choice.config(), choice.kernels().count()), (None, 0));
    }
}

#[test]
fn gradients_in_place_are_those_apart() {
    let device = Device::cpu();
    let y = device.upload(&[0.25f32, 0.75, 0.5, 0.5]).unwrap();
    let mut dy = device.upload(&[1.0f32, 0.0, 3.0, 3.0]).unwrap();
    let mut dx = device.alloc_zeroed::<f32>(4).unwrap();
    let options = Options::new().scale(2.0);
    let y = Matrix::new(&y, 2, 2).unwrap();
    let mut out = MatrixMut::new(&mut dx, 2, 2).unwrap();
    softmax_backward(&device, &mut out, &Matrix::new(&dy, 2, 2).unwrap(), &y, &options).unwrap();
    softmax_backward_in_place(&device, &mut MatrixMut::new(&mut dy, 2, 2).unwrap(), &y, &options).unwrap();
    assert_eq!(dx.to_vec().unwrap(), [0.375, -0.375, 0.0, 0.0]);
    assert_eq!(dx.to_vec().unwrap(), dy.to_vec().unwrap());
    let other = Matrix::new(&dx, 1, 4).unwrap();
    let error =
        softmax_backward_in_place(&device, &mut MatrixMut::new(&mut dy, 2, 2).unwrap(), &other, &options);
    assert!(error.unwrap_err().to_string().contains("the result is 1 x 4"));
}

#[test]
fn cross_entropy_gives_what_is_asked_for() {
    let device = Device::cpu();
    let (mut logits, targets) =
        (device.upload(&[0.0f32, 0.0, 5.0, 5.0]).unwrap(), device.upload(&[0u8, 7]).unwrap());
    let mut losses = device.alloc_zeroed::<f32>(2).unwrap();
    let mut lse = device.alloc_zeroed::<f32>(2).unwrap();
    let mut correct = device.alloc_zeroed::<u32>(2).unwrap();
    let gradients = device.upload(&[3.0f32, 1.0]).unwrap();
    CrossEntropy::in_place(&mut losses, MatrixMut::new(&mut logits, 2, 2).unwrap(), &targets, 2.0)
        .with_log_sum_exp(&mut lse)
        .with_correct(&mut correct)
        .with_row_gradients(&gradients)
        .ignoring(7)
        .run(&device)
        .unwrap();
    let (losses_of_rows, lse) = (losses.to_vec().unwrap(), lse.to_vec().unwrap());
    assert!((losses_of_rows[0] - 2f32.ln()).abs() < 1e-6 && losses_of_rows[1] == 0.0, "{losses_of_rows:?}");
    assert!((lse[0] - 2f32.ln()).abs() < 1e-6 && (lse[1] - 5.0 - 2f32.ln()).abs() < 1e-6, "{lse:?}");
    assert_eq!(correct.to_vec().unwrap(), [1, 0]);
    assert_eq!(logits.to_vec().unwrap(), [-3.0, 3.0, 0.0, 0.0]);
    let logits = Matrix::new(&logits, 1, 4).unwrap();
    let error = CrossEntropy::new(&mut losses, &logits, &targets).run(&device).unwrap_err().to_string();
    assert_eq!(error, "cross entropy of 1 rows failed: there are 2 losses; each row needs one");
}
