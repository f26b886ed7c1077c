"""The operators of torch, on the CPU and, if there is one, on a GPU: results, gradients, layouts, errors, opcheck and compile."""

import pathlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ferrowarp as fw
import reference

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
SEEDS = range(8)
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, *HALVES]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def close(got, expected, dtype=None, scale=1.0):
    tolerance = TOLERANCE[dtype or got.dtype] * scale
    expected = torch.as_tensor(np.asarray(expected))
    torch.testing.assert_close(got.detach().cpu().double(), expected.double(), rtol=tolerance, atol=tolerance)


def wide(x):
    return x.detach().cpu().double().numpy()


def random(rng, shape, dtype, device):
    """A tensor of a random layout."""
    values = torch.tensor(rng.standard_normal(shape)).to(device, dtype)
    kind = rng.integers(3)
    if kind == 1 and len(shape) > 1:
        return values.transpose(-1, -2).contiguous().transpose(-1, -2)
    if kind == 2:
        return torch.cat([values, values[..., :1]], -1)[..., : shape[-1]]
    return values


def shape(rng, most=40):
    return tuple(int(n) for n in rng.integers(1, most, rng.integers(1, 4)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_results_agree_with_float64(device, seed, dtype):
    rng = np.random.default_rng(seed)
    x = random(rng, shape(rng), dtype, device)
    close(fw.softmax(x), reference.softmax(wide(x)), dtype)
    close(fw.log_softmax(x), reference.softmax(wide(x), log=True), dtype, 4)
    weight, bias = (random(rng, x.shape[-1:], dtype, device) for _ in range(2))
    close(fw.rms_norm(x, weight, epsilon=1e-2), reference.norm(wide(x), wide(weight), epsilon=1e-2), dtype, 4)
    expected = reference.norm(wide(x), wide(weight), wide(bias), epsilon=1e-2, centred=True)
    close(fw.layer_norm(x, weight, bias, epsilon=1e-2), expected, dtype, 8)
    close(fw.sum(x), wide(x).sum(-1), dtype, 10)
    close(fw.mean(x, "rows"), wide(x).reshape(-1, x.shape[-1]).mean(0), dtype, 10)
    close(fw.cumsum(x), wide(x).cumsum(-1), dtype, 10)
    assert torch.equal(fw.max(x, 0), x.amax(0)) and torch.equal(fw.min(x), x.amin(-1))
    targets = torch.tensor(rng.integers(0, x.shape[-1], x.shape[:-1]), device=device)
    losses = fw.cross_entropy(x, targets, reduction="none")
    close(losses, reference.cross_entropy(wide(x), targets.cpu().numpy()), torch.float32, 4)
    values, indices = fw.top_k(x, 1)
    assert indices.dtype == torch.int32 and torch.equal(indices[..., 0], x.argmax(-1).int())
    assert torch.equal(fw.sample(x, temperature=0.0), indices[..., 0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_matmul_agrees_with_float64(device, seed, dtype):
    rng = np.random.default_rng(seed)
    m, n, k = (int(n) for n in rng.integers(1, 70, 3))
    front = shape(rng, 4)[: int(rng.integers(0, 3))]
    a, b = random(rng, (*front, m, k), dtype, device), random(rng, (k, n) if seed % 2 else (*front, k, n), dtype, device)
    bias, residual = random(rng, (n,), dtype, device), random(rng, (*front, m, n), dtype, device)
    activation = [None, "relu", "gelu"][seed % 3]
    got = fw.matmul(a, b, bias=bias, residual=residual, activation=activation, scale=0.5)
    close(got, reference.matmul(wide(a), wide(b), wide(bias), wide(residual), 0.5, activation), dtype, 8)
    if dtype != torch.float32:
        full = fw.matmul(a, b, out_float32=True)
        assert full.dtype == torch.float32
        close(full, wide(a) @ wide(b), torch.float32, 20)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("seed", SEEDS)
def test_attention_agrees_with_float64(device, seed, dtype):
    rng = np.random.default_rng(seed)
    batch, queries, keys, heads, group = (int(n) for n in rng.integers(1, [3, 40, 60, 3, 4]))
    size = 8 * int(rng.integers(1, 17))
    # As others store them: the heads before the positions.
    q = random(rng, (batch, heads * group, queries, size), dtype, device).transpose(1, 2)
    k, v = (random(rng, (batch, heads, keys, size), dtype, device).transpose(1, 2) for _ in range(2))
    causal = [None, "top_left", "bottom_right"][seed % 3]
    close(fw.attention(q, k, v, causal=causal), reference.attention(wide(q), wide(k), wide(v), causal), dtype)
    lengths = torch.tensor(rng.integers(1, keys + 1, batch), dtype=torch.int32, device=device)
    expected = reference.attention(wide(q), wide(k), wide(v), lengths=lengths.cpu().numpy())
    close(fw.attention(q, k, v, lengths=lengths), expected, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_reads_pages(device, dtype):
    rng = np.random.default_rng(0)
    k, v = (random(rng, (8, 16, 2, 64), dtype, device) for _ in range(2))
    table = torch.tensor(rng.permutation(8)[:6].reshape(2, 3), dtype=torch.int32, device=device)
    lengths = torch.tensor([33, 7], dtype=torch.int32, device=device)
    q = random(rng, (2, 1, 8, 64), dtype, device)
    keys, values = (wide(x)[table.cpu().numpy()].reshape(2, 48, 2, 64) for x in (k, v))
    got = fw.attention(q, k, v, pages=table, lengths=lengths)
    close(got, reference.attention(wide(q), keys, values, lengths=lengths.cpu().numpy()), dtype)


def differences(function, inputs, weights, step=1e-2):
    """The gradients of sum(weights * function(*inputs)) by central differences, on the CPU."""
    inputs = [x.detach().cpu() for x in inputs]
    gradients = []
    for x in inputs:
        flat, gradient = x.view(-1), torch.zeros(x.numel(), dtype=torch.float64)
        for at in range(x.numel()):
            value = flat[at].item()
            sums = []
            for shifted in (value + step, value - step):
                flat[at] = shifted
                sums.append((function(*inputs).double() * weights).sum().item())
            flat[at] = value
            gradient[at] = (sums[0] - sums[1]) / (2 * step)
        gradients.append(gradient.view(x.shape))
    return gradients


DIFFERENTIABLE = {
    "softmax": (lambda x: fw.softmax(x, scale=0.7), [(3, 5)]),
    "log_softmax": (lambda x: fw.log_softmax(x, 0), [(3, 5)]),
    "cross_entropy": (lambda x: fw.cross_entropy(x, torch.tensor([1, -100, 4], device=x.device)), [(3, 5)]),
    "losses": (lambda x: fw.cross_entropy(x, torch.tensor([1, 0, 4], device=x.device), reduction="none"), [(3, 5)]),
    "rms_norm": (lambda x, w: fw.rms_norm(x, w), [(3, 6), (6,)]),
    "layer_norm": (lambda x, w, b: fw.layer_norm(x, w, b), [(2, 2, 6), (6,), (6,)]),
    "residual": (lambda x, r, w: torch.cat(fw.rms_norm(x, w, residual=r)), [(3, 6), (3, 6), (6,)]),
    "matmul": (lambda a, b: fw.matmul(a, b, scale=0.5), [(3, 4), (4, 5)]),
    "linear": (lambda a, b, c, r: fw.matmul(a, b, bias=c, residual=r, activation="gelu"), [(2, 3, 4), (4, 5), (5,), (2, 3, 5)]),
    "relu": (lambda a, b, c: fw.matmul(a, b, bias=c, activation="relu"), [(3, 4), (4, 5), (5,)]),
    "batches": (lambda a, b: fw.matmul(a, b), [(2, 3, 4), (2, 4, 5)]),
    "sum": (lambda x: fw.sum(x), [(3, 5)]),
    "mean": (lambda x: fw.mean(x, "rows"), [(3, 5)]),
    "max": (lambda x: fw.max(x, 0), [(3, 5)]),
    "cumsum": (lambda x: fw.cumsum(x), [(3, 5)]),
    "transpose": (lambda x: fw.transpose(x), [(3, 5)]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_agree_with_differences(device, name):
    function, shapes = DIFFERENTIABLE[name]
    rng = np.random.default_rng(len(name))
    inputs = [torch.tensor(rng.standard_normal(of), dtype=torch.float32, device=device, requires_grad=True) for of in shapes]
    out = function(*inputs)
    weights = torch.tensor(rng.standard_normal(out.shape))
    gradients = torch.autograd.grad(out, inputs, weights.to(device, out.dtype))
    for got, expected in zip(gradients, differences(function, inputs, weights)):
        torch.testing.assert_close(got.cpu().double(), expected, rtol=2e-2, atol=4e-3)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
def test_gradients_of_attention_agree_with_float64(device, dtype, causal):
    rng = np.random.default_rng(1)
    q = random(rng, (2, 9, 4, 64), dtype, device).requires_grad_()
    k, v = (random(rng, (2, 12, 2, 64), dtype, device).requires_grad_() for _ in range(2))
    out = fw.attention(q, k, v, causal=causal)
    gradient = random(rng, out.shape, dtype, device)
    got = torch.autograd.grad(out, (q, k, v), gradient)
    wide_inputs = [x.detach().cpu().double().requires_grad_() for x in (q, k, v)]
    queries, keys, values = (x.transpose(1, 2) for x in wide_inputs)
    mask = torch.ones(9, 12, dtype=torch.bool)
    mask = {None: mask, "top_left": mask.tril(), "bottom_right": mask.tril(3)}[causal]
    expected = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True).transpose(1, 2)
    for ours, theirs in zip(got, torch.autograd.grad(expected, wide_inputs, gradient.cpu().double())):
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=4e-2, atol=2e-2 if dtype == torch.float16 else 4e-2)
    # Gradients that are expanded, as those of a sum are.
    fw.attention(q, k, v, causal=causal).sum().backward()
    assert q.grad.isfinite().all()


def samples(device):
    """Arguments of each operator that has gradients or is public."""
    x = torch.randn(3, 8, device=device, requires_grad=True)
    h = torch.randn(1, 4, 2, 16, device=device).half().requires_grad_()
    weight = torch.randn(8, device=device, requires_grad=True)
    return {
        "softmax": (x, 1.0, False, False),
        "cross_entropy": (x, torch.tensor([0, 3, -100], device=device), -100),
        "norm": (x, weight, weight, x, 1e-5, True),
        "attention": (h, h, h, None, None, 1, -1, 0.0),
        "matmul": (x, x.detach().t(), None, None, 1.0, 0, False, False),
        "reduce": (x, 0, True),
        "cumulative_sum": (x,),
        "transpose": (x,),
        "top_k": (x.detach(), 3, 1.0, False, False),
        "sample": (x.detach(), 1.0, 0, 1.0, 1, 2),
    }


@pytest.mark.parametrize("name", list(samples("cpu")))
def test_opcheck(device, name):
    torch.library.opcheck(getattr(torch.ops.ferrowarp, name).default, samples(device)[name], rtol=1e-2, atol=1e-2)


def test_all_layouts_and_sizes_give_the_same_results(device):
    x = torch.randn(4, 6, 10, device=device)
    expected = fw.softmax(x)
    for view in (x.transpose(0, 1).contiguous().transpose(0, 1), x.flip(-1).flip(-1), torch.cat([x, x], -1)[..., :10]):
        assert torch.equal(fw.softmax(view), expected)
    assert torch.equal(fw.softmax(x.expand(2, 4, 6, 10)), expected.expand(2, 4, 6, 10))
    assert fw.softmax(x.reshape(1, 2, 2, 1, 6, 1, 10)).shape == (1, 2, 2, 1, 6, 1, 10)
    for of in ((0, 5), (3, 0), (0,), (2, 0, 4)):
        assert fw.softmax(torch.zeros(of, device=device)).shape == of
        assert fw.rms_norm(torch.zeros(of, device=device)).shape == of
    assert fw.softmax(torch.tensor(3.0, device=device)).item() == 1


def test_errors_are_exceptions_with_sentences(device):
    x = torch.zeros(2, 3, device=device)
    for call, kind, words in [
        (lambda: fw.softmax(x.double()), TypeError, "softmax failed: the input holds float64; it needs float32, float16 or bfloat16"),
        (lambda: fw.softmax(x, scale=-1.0), ValueError, "softmax failed: the scale is -1.0; it must be from 2^-126 to 2^127"),
        (lambda: fw.rms_norm(x, x[0].half()), TypeError, "norm failed: the weight holds float16; it needs float32"),
        (lambda: fw.rms_norm(x, x[:, 0]), ValueError, "RMSNorm failed: the weight has the shape [2]; it needs [3]"),
        (lambda: fw.cross_entropy(x, torch.zeros(3, dtype=torch.int64, device=device)), ValueError, "the target has the shape [3]; it needs [2]"),
        (lambda: fw.matmul(x, x), ValueError, "the second operand has the shape [2, 3]; it needs [3, 3]"),
        (lambda: fw.softmax(x.to_sparse()), (TypeError, NotImplementedError), ""),
        (lambda: fw.rms_norm(x, np.zeros(3, np.float32)), TypeError, "norm failed: the weight is a numpy.ndarray and the input a torch.Tensor"),
        (lambda: fw.matmul(x.cpu().numpy(), x), TypeError, "the second operand is a torch.Tensor and the first operand a numpy.ndarray"),
        (lambda: fw.matmul(x, [1.0]), TypeError, "matmul failed: the second operand is a list; it needs a torch.Tensor"),
        (lambda: fw.top_k(x, 1.5), TypeError, "top-k failed: k is 1.5; it must be a whole number"),
        (lambda: fw.top_k(x, 1 << 70), ValueError, "top-k failed: k is 1180591620717411303424; it must be from 1 to 128"),
        (lambda: fw.softmax(x, True), TypeError, "dim is True; it must be a whole number"),
        (lambda: fw.sample(x, top_p="a"), TypeError, "sampling failed: the top p is 'a'; it must be a number"),
        (lambda: torch.ops.ferrowarp.top_k(x, -1), RuntimeError, "top-k failed: the k is -1; it must be from 1 to 128"),
        (lambda: fw.matmul(x.t(), x.expand(7, 1, 1, 1, 1, 1, 1, 2, 3)), ValueError, "the second operand has 9 axes; it needs at most 8"),
        (lambda: fw.softmax(x, 2), IndexError, "Dimension out of range"),
    ]:
        with pytest.raises(kind) as caught:
            call()
        assert words in str(caught.value)
    with pytest.raises(RuntimeError, match="the scale is -1"):
        torch.ops.ferrowarp.softmax(x, -1.0, False, False)


def model(x, weight, targets):
    """Some of everything that has gradients."""
    hidden = fw.matmul(fw.rms_norm(x, weight), weight.diag(), activation="gelu")
    return fw.cross_entropy(fw.layer_norm(hidden) + fw.softmax(hidden) + fw.cumsum(hidden), targets)


def test_compiled_functions_give_the_same(device):
    torch.manual_seed(0)
    x = torch.randn(6, 8, device=device)
    weight, targets = torch.randn(8, device=device, requires_grad=True), torch.randint(8, (6,), device=device)
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    losses = [function(x, weight, targets) for function in (model, compiled)]
    gradients = [torch.autograd.grad(loss, weight)[0] for loss in losses]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, weight, targets), model(x, weight, targets))
    # Other sizes.
    torch.testing.assert_close(compiled(x[:3], weight, targets[:3]), model(x[:3], weight, targets[:3]))


def test_the_example_of_the_guide(device):
    text = pathlib.Path(__file__).parent.with_name("examples").joinpath("first.py").read_text()
    names = {}
    exec(text.replace('"cuda"', repr(device)).replace("4096", "64"), names)
    assert names["x"].grad.isfinite().all() and names["columns"].shape == (64, 5)


def test_modes(device):
    x = torch.randn(2, 3, device=device, requires_grad=True)
    assert fw.softmax(x).requires_grad and not fw.softmax(x.detach()).requires_grad
    with torch.no_grad():
        assert not fw.softmax(x).requires_grad
    with torch.inference_mode():
        assert torch.equal(fw.softmax(x.detach()), fw.softmax(x.detach()))
    with torch._subclasses.FakeTensorMode():
        assert fw.softmax(torch.empty(2, 3, device=device)).shape == (2, 3)
    parameter = torch.nn.Parameter(torch.randn(3, device=device))
    fw.rms_norm(x, parameter).sum().backward()
    assert parameter.grad is not None
