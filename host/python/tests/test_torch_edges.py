"""Where torch's transforms, devices and layouts could give wrong results without an error."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ferrowarp as fw
from test_torch import DEVICES


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def test_second_derivatives_are_right_or_refused(device):
    rng = np.random.default_rng(7)

    def leaf(*of):
        return torch.tensor(rng.standard_normal(of), dtype=torch.float32, device=device, requires_grad=True)

    def second(function, *inputs):
        """The gradients of the squared length of the gradients."""
        gradients = torch.autograd.grad(function(*inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), inputs)

    a, b, c = leaf(4, 3), leaf(3, 5), leaf(2, 3, 4)
    for ours, theirs, inputs in [
        (fw.matmul, torch.matmul, (a, b)),
        (fw.matmul, torch.matmul, (c, leaf(4, 5))),
        (lambda a, b, c: fw.matmul(a, b, bias=c, activation="relu"), lambda a, b, c: (a @ b + c).relu(), (a, b, leaf(5))),
        (fw.cumsum, lambda x: x.cumsum(-1), (a,)),
        (fw.transpose, lambda x: x.t(), (a,)),
        (fw.mean, lambda x: x.mean(-1), (c,)),
        (lambda x: fw.sum(x, "rows"), lambda x: x.sum((0, 1)), (c,)),
        (fw.max, lambda x: x.amax(-1), (c,)),
    ]:
        for got, expected in zip(second(ours, *inputs), second(theirs, *inputs)):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    targets = torch.tensor([0, 1, 2, 0], device=device)
    heads = torch.randn(1, 4, 2, 16, device=device).half().requires_grad_()
    for function, inputs in [
        (fw.softmax, (a,)),
        (lambda x: fw.cross_entropy(x, targets), (a,)),
        (fw.rms_norm, (a,)),
        (fw.layer_norm, (a, leaf(3), leaf(3))),
        (lambda x: fw.attention(x, x, x), (heads,)),
    ]:
        # An unused graph is no error.
        torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
        with pytest.raises(RuntimeError, match="no gradients of these gradients"):
            second(function, *inputs)


def test_forward_derivatives_are_refused(device):
    x = torch.randn(3, 4, device=device)
    functions = (fw.softmax, fw.rms_norm, fw.sum, fw.cumsum, lambda x: fw.matmul(x.t(), x), lambda x: fw.top_k(x, 2)[0])
    for function in functions:
        with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
            torch.func.jvp(function, (x,), (x,))
        with torch.autograd.forward_ad.dual_level():
            assert torch.equal(function(x), function(x))
            with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
                function(torch.autograd.forward_ad.make_dual(x, x))


def test_traced_calls_keep_their_gradients(device):
    from torch.fx.experimental.proxy_tensor import make_fx

    class Model(torch.nn.Module):
        def forward(self, x):
            return fw.cumsum(fw.softmax(fw.matmul(x, x, activation="gelu")) + fw.rms_norm(x, x[0]))

    model, x = Model(), torch.randn(6, 6, device=device)
    leaf = x.clone().requires_grad_()
    weights = torch.randn(6, 6, device=device)
    (expected,) = torch.autograd.grad(model(leaf), leaf, weights)
    for traced in (
        torch.jit.trace(model, x, check_trace=False),
        torch.export.export(model, (x,)).module(),
        torch.export.export(model, (x,), strict=True).module(),
        make_fx(model)(x),
        make_fx(model, tracing_mode="fake")(x),
    ):
        (got,) = torch.autograd.grad(traced(leaf), leaf, weights)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_an_operand_on_another_device_is_refused(device):
    x, meta = torch.randn(2, 3, device=device), torch.empty(3, device="meta")
    for call in (
        lambda: fw.rms_norm(x, meta),
        lambda: fw.rms_norm(meta.expand(2, 3), x[0]),
        lambda: fw.matmul(x, meta.expand(2, 3).t()),
        lambda: fw.matmul(x, x.t(), bias=meta[:2]),
        lambda: fw.cross_entropy(x, torch.empty(2, dtype=torch.int64, device="meta")),
    ):
        with pytest.raises(ValueError, match="failed: .* move"):
            call()


def test_tracing_refuses_what_the_kernels_refuse(device):
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    x, h = torch.zeros(2, 3, device=device), torch.zeros(1, 2, 4, 16, device=device).half()
    refused = [
        (lambda x, h: fw.softmax(x.double()), TypeError),
        (lambda x, h: fw.softmax(x, scale=-1.0), ValueError),
        (lambda x, h: fw.rms_norm(x, x[0].half()), TypeError),
        (lambda x, h: fw.layer_norm(x, x[:, 0]), ValueError),
        (lambda x, h: fw.rms_norm(x, residual=x.t()), ValueError),
        (lambda x, h: fw.cross_entropy(x, x[0].long()), ValueError),
        (lambda x, h: fw.cross_entropy(x, x[:, 0]), TypeError),
        (lambda x, h: fw.top_k(x, 129), ValueError),
        (lambda x, h: fw.matmul(x, x), ValueError),
        (lambda x, h: fw.matmul(x, x.t().half()), TypeError),
        (lambda x, h: fw.attention(h.float(), h, h), TypeError),
        (lambda x, h: fw.attention(h, h[:, :, :3], h), ValueError),
        (lambda x, h: fw.attention(h[0], h, h), ValueError),
        (lambda x, h: fw.transpose(h), ValueError),
        (lambda x, h: fw.sum(x.long()), TypeError),
    ]
    for call, kind in refused:
        with pytest.raises(kind) as real:
            call(x, h)
        for shapes in (None, ShapeEnv()):
            mode = FakeTensorMode(shape_env=shapes)
            with mode, pytest.raises(kind) as traced:
                call(*(mode.from_tensor(of, static_shapes=shapes is None) for of in (x, h)))
            assert str(traced.value) == str(real.value)


def test_types_that_no_operator_takes_are_named(device):
    for dtype in (torch.complex32, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.uint16):
        with pytest.raises(TypeError, match=f"input holds {str(dtype)[6:]}; it needs float32, float16 or bfloat16"):
            fw.softmax(torch.empty(2, 3, dtype=dtype, device=device))


def test_empty_tensors_have_results_and_gradients(device):
    def zeros(*of):
        return torch.zeros(of, device=device, requires_grad=True)

    x = zeros(0, 3, 5)
    for got in (fw.softmax(x, 1), fw.cumsum(x, 1), fw.rms_norm(x.transpose(1, 2)).transpose(1, 2), fw.softmax(torch.ones(4, 6, 5, device=device)[:0, ::2])):
        assert got.shape == x.shape
    assert fw.transpose(zeros(5, 0)).shape == fw.transpose(zeros(0, 5).t()[:, :0]).shape == (0, 5)
    assert fw.matmul(zeros(0, 3), zeros(3, 2)).shape == (0, 2)
    for function, inputs in [
        (lambda x: fw.sum(x, "rows"), (zeros(64, 0),)),
        (lambda x: fw.mean(x, "rows"), (zeros(0, 5),)),
        (fw.mean, (zeros(3, 0),)),
        (fw.sum, (zeros(),)),
        (fw.max, (zeros(),)),
        (fw.cumsum, (zeros(),)),
        (lambda x: fw.softmax(x, 1), (x,)),
        (fw.matmul, (zeros(2, 3, 0), zeros(0, 4))),
        (fw.matmul, (zeros(2, 3, 4), zeros(4, 0))),
        (fw.matmul, (zeros(0, 3, 4), zeros(4, 5))),
        (lambda a, b, c: fw.matmul(a, b, bias=c), (zeros(2, 0, 4), zeros(4, 5), zeros(5))),
    ]:
        for gradient, of in zip(torch.autograd.grad(function(*inputs).sum(), inputs), inputs):
            assert gradient.shape == of.shape
    losses = fw.cross_entropy(zeros(2, 0), torch.zeros(2, dtype=torch.uint8, device=device))
    assert losses.isnan() and fw.sample(zeros(2, 0)).tolist() == [-1, -1]
    values, columns = fw.top_k(zeros(2, 0).detach(), 1)
    assert values.tolist() == [[0], [0]] and columns.tolist() == [[-1], [-1]]


@pytest.mark.parametrize("kind, ignored", [(torch.uint8, -100), (torch.int32, 1 << 32)])
def test_the_mean_counts_the_rows_that_are_not_ignored(device, kind, ignored):
    logits = torch.randn(4, 200, device=device)
    targets = torch.tensor([156, 0, 3, 156], device=device)
    expected = torch.nn.functional.cross_entropy(logits, targets)
    torch.testing.assert_close(fw.cross_entropy(logits, targets.to(kind), ignore_index=ignored), expected)


def test_misaligned_tensors_are_copied():
    values = torch.randn(20, 16).half()
    raw = torch.frombuffer(bytearray(b"." + values.numpy().tobytes()), dtype=torch.float16, offset=1, count=320).view(20, 16)
    assert raw.data_ptr() % 2 == 1
    for function in (fw.softmax, fw.rms_norm, fw.sum, fw.transpose, lambda x: fw.matmul(x, x.t(), bias=x.flatten()[:20])):
        assert torch.equal(function(raw), function(values))


LATE = """
import threading, numpy, ferrowarp as fw, torch
x, barrier, failures = torch.randn(3, 4), threading.Barrier(8), []
def call():
    barrier.wait()
    try:
        fw.softmax(x)
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=call) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert not failures, failures
"""


def test_threads_can_make_the_first_call():
    subprocess.run([sys.executable, "-c", LATE], check=True)


def test_results_that_no_memory_holds_are_refused():
    for place in ("cpu", "meta"):
        def empty(*shape):
            return torch.empty(shape, device=place)

        for call, words in (
            (lambda: fw.matmul(empty(1 << 32, 0), empty(0, 1 << 32)), "matmul failed: the output has the shape"),
            (lambda: fw.matmul(empty(1 << 31, 0), empty(0, 1 << 31)), "fewer than 2^63 bytes"),
            (lambda: fw.matmul(empty(1 << 40, 1 << 20, 0), empty(1 << 40, 0, 1 << 20)), "fewer than 2^63 bytes"),
            (lambda: fw.top_k(empty(1 << 60, 0), 128), "top-k failed: the output has the shape"),
        ):
            with pytest.raises(ValueError, match=re.escape(words)):
                call()


def test_operators_refuse_numbers_that_stand_for_nothing(device):
    x = torch.randn(4, 4, device=device)
    q = torch.randn(1, 4, 1, 16, device=device, dtype=torch.float16)
    ops = torch.ops.ferrowarp
    for call, words in (
        (lambda: ops.attention(q, q, q, None, None, 99), "the causal is 99; it must be one of 0 (none), 1 (top left)"),
        (lambda: ops.attention(q, q, q, None, None, 1, -5), "the window is -5; it must be at least 1, or -1 for none"),
        (lambda: ops.reduce(x, 9), "the reduction is 9; it must be one of 0 (sum), 1 (mean), 2 (max), 3 (min)"),
        (lambda: ops.matmul(x, x, None, None, 1.0, 7), "the activation is 7; it must be one of 0 (none), 1 (relu), 2 (gelu)"),
        (lambda: ops.matmul(x, x, None, None, math.inf), "matmul failed: the scale is inf; it must be finite"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(words)):
            call()
