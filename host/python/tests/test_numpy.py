"""The operations on NumPy arrays, against float64."""

import os
import subprocess
import sys

import numpy as np
import pytest

import ferrowarp as fw
import reference

SEEDS = range(12)
DTYPES = (np.float32, np.float16)


def tolerance(dtype):
    return {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[np.dtype(dtype).name if not isinstance(dtype, str) else dtype]


def check(got, expected, dtype, scale=1.0):
    got = np.asarray(got, np.float64)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=tolerance(dtype) * scale, atol=tolerance(dtype) * scale)


def array(rng, shape, dtype):
    """An array of a random layout: dense, transposed, with gaps or reversed."""
    kind = rng.integers(4)
    if kind == 1 and len(shape) > 1:
        return np.moveaxis(rng.standard_normal((shape[-1], *shape[:-1])).astype(dtype), 0, -1)
    if kind == 2:
        return rng.standard_normal((*shape[:-1], shape[-1] + 3)).astype(dtype)[..., : shape[-1]]
    if kind == 3:
        return rng.standard_normal(shape).astype(dtype)[..., ::-1]
    return rng.standard_normal(shape).astype(dtype)


def shape(rng, most=40):
    return tuple(int(n) for n in rng.integers(1, most, rng.integers(1, 4)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(seed, dtype):
    rng = np.random.default_rng(seed)
    x, log, scale = array(rng, shape(rng), dtype), bool(rng.integers(2)), float(rng.uniform(0.2, 3))
    dim = int(rng.integers(-x.ndim, x.ndim))
    expected = np.moveaxis(reference.softmax(np.moveaxis(x, dim, -1), scale, log), -1, dim)
    got = fw.softmax(x, dim, scale=scale, log=log)
    assert got.dtype == dtype
    check(got, expected, dtype, 4 if log else 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_cross_entropy(seed):
    rng = np.random.default_rng(seed)
    rows, classes = (int(n) for n in rng.integers(1, 60, 2))
    kind = [np.int64, np.int32, np.uint8][seed % 3]
    logits, targets = array(rng, (rows, classes), np.float32), rng.integers(0, classes, rows).astype(kind)
    ignored = int(targets[0])
    expected = reference.cross_entropy(logits, targets, ignored)
    check(fw.cross_entropy(logits, targets, ignore_index=ignored, reduction="none"), expected, np.float32)
    check(fw.cross_entropy(logits, targets, reduction="sum"), reference.cross_entropy(logits, targets).sum(), np.float32, 10)
    check(fw.cross_entropy(logits, targets), reference.cross_entropy(logits, targets).mean(), np.float32, 10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(seed, dtype):
    rng = np.random.default_rng(seed)
    of = shape(rng, 70)
    x, weight, bias = array(rng, of, dtype), rng.standard_normal(of[-1]).astype(dtype), rng.standard_normal(of[-1]).astype(dtype)
    # A row of one element has no variance: epsilon decides.
    check(fw.rms_norm(x, weight, epsilon=1e-2), reference.norm(x, weight, epsilon=1e-2), dtype, 4)
    check(fw.layer_norm(x, weight, bias, epsilon=1e-2), reference.norm(x, weight, bias, epsilon=1e-2, centred=True), dtype, 8)
    residual = array(rng, of, dtype)
    got, total = fw.rms_norm(x, residual=residual)
    np.testing.assert_array_equal(total, x + residual)
    check(got, reference.norm(total), dtype, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention(seed):
    rng = np.random.default_rng(seed)
    batch, queries, keys, heads, group = (int(n) for n in rng.integers(1, [3, 20, 40, 3, 4]))
    size = 8 * int(rng.integers(1, 9))
    q = rng.standard_normal((batch, queries, heads * group, size)).astype(np.float16)
    k, v = (rng.standard_normal((batch, keys, heads, size)).astype(np.float16) for _ in range(2))
    causal = [None, "top_left", "bottom_right"][seed % 3]
    window = int(rng.integers(1, 10)) if causal and seed % 2 else None
    got = fw.attention(q, k, v, causal=causal, window=window)
    check(got, reference.attention(q, k, v, causal, window), np.float16)
    lengths = rng.integers(1, keys + 1, batch).astype(np.int32)
    check(fw.attention(q, k, v, lengths=lengths), reference.attention(q, k, v, lengths=lengths), np.float16)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_reads_pages(seed):
    rng = np.random.default_rng(seed)
    batch, columns, page = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 16
    k, v = (rng.standard_normal((batch * columns + 2, page, 2, 16)).astype(np.float16) for _ in range(2))
    table = rng.permutation(batch * columns + 2)[: batch * columns].reshape(batch, columns).astype(np.int32)
    lengths = rng.integers(1, columns * page + 1, batch).astype(np.int32)
    q = rng.standard_normal((batch, 1, 4, 16)).astype(np.float16)
    keys, values = (x[table].reshape(batch, columns * page, 2, 16) for x in (k, v))
    got = fw.attention(q, k, v, pages=table, lengths=lengths)
    check(got, reference.attention(q, keys, values, lengths=lengths), np.float16)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul(seed, dtype):
    rng = np.random.default_rng(seed)
    m, n, k = (int(n) for n in rng.integers(1, 50, 3))
    front = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
    a = array(rng, (*front, m, k), dtype)
    b = array(rng, (k, n) if rng.integers(2) else (*front, k, n), dtype)
    bias, residual = rng.standard_normal(n).astype(dtype), rng.standard_normal((*front, m, n)).astype(dtype)
    activation = [None, "relu", "gelu"][seed % 3]
    got = fw.matmul(a, b, bias=bias, residual=residual, activation=activation, scale=0.5)
    check(got, reference.matmul(a, b, bias, residual, 0.5, activation), dtype, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_sums(seed):
    rng = np.random.default_rng(seed)
    x = array(rng, shape(rng), np.float32)
    dim = int(rng.integers(-x.ndim, x.ndim))
    for ours, of in ((fw.sum, np.sum), (fw.mean, np.mean), (fw.max, np.max), (fw.min, np.min)):
        check(ours(x, dim), of(x.astype(np.float64), dim), np.float32, 10)
        check(ours(x, "rows"), of(x.astype(np.float64).reshape(-1, x.shape[-1]), 0), np.float32, 10)
    check(fw.cumsum(x, dim), np.cumsum(x.astype(np.float64), dim), np.float32, 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int16, np.uint16])
def test_transpose_moves_any_elements_of_2_or_4_bytes(dtype):
    x = np.random.default_rng(0).integers(0, 100, (13, 37)).astype(dtype)
    np.testing.assert_array_equal(fw.transpose(x), x.T)


@pytest.mark.parametrize("seed", SEEDS)
def test_top_k_and_samples(seed):
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 80, 2))
    logits, k = array(rng, (rows, columns), np.float32), int(rng.integers(1, 9))
    values, indices = fw.top_k(logits, k)
    order = np.argsort(-logits, -1, kind="stable")[:, :k]
    found = min(k, columns)
    np.testing.assert_array_equal(indices[:, :found], order)
    assert (indices[:, found:] == -1).all()
    check(values[:, :found], np.take_along_axis(reference.softmax(logits), order, -1), np.float32)
    np.testing.assert_array_equal(fw.sample(logits, temperature=0), order[:, 0])
    drawn = [fw.sample(logits, top_k=k, seed=seed, draw=draw) for draw in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert all((token[:, None] == order).any(-1).all() for token in drawn)


def test_empty_arrays_give_empty_results():
    for of in ((0, 5), (3, 0), (0,), (2, 0, 4)):
        assert fw.softmax(np.zeros(of, np.float32)).shape == of
        assert fw.rms_norm(np.zeros(of, np.float32)).shape == of
        assert fw.cumsum(np.zeros(of, np.float32)).shape == of
    assert fw.matmul(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32)).tolist() == [[0, 0]] * 3
    assert fw.sum(np.zeros((0, 3), np.float32), "rows").tolist() == [0, 0, 0]


def test_rows_without_columns_have_defined_results():
    for of in ((3, 0), (0,), (2, 3, 0)):
        empty, targets = np.zeros(of, np.float16), np.zeros(of[:-1], np.int64)
        values, columns = fw.top_k(empty, 4)
        assert values.shape == columns.shape == (*of[:-1], 4) and (values == 0).all() and (columns == -1).all()
        assert (fw.top_k(empty, 2, log=True)[0] == -np.inf).all()
        assert (fw.sample(empty) == -1).all() and (fw.sample(empty, temperature=0, top_k=3) == -1).all()
        losses = fw.cross_entropy(empty, targets, reduction="none")
        assert losses.shape == of[:-1] and losses.dtype == np.float32 and np.isnan(losses).all()


@pytest.mark.parametrize("kind, ignored", [(np.uint8, -100), (np.uint8, 3), (np.int32, 1 << 32), (np.int32, 2)])
def test_the_mean_counts_the_rows_that_are_not_ignored(kind, ignored):
    rng = np.random.default_rng(5)
    logits, targets = rng.standard_normal((90, 200)).astype(np.float32), rng.integers(0, 200, 90).astype(kind)
    # What -100 and 2^32 would be in the targets' type.
    targets[:9] = [156, 156, 0, 0, 0, 2, 2, 3, 3]
    losses = reference.cross_entropy(logits, targets.astype(np.int64), ignored)
    expected = losses.sum() / (targets.astype(np.int64) != ignored).sum()
    mean = fw.cross_entropy(logits, targets, ignore_index=ignored)
    assert mean.dtype == np.float32
    check(mean, expected, np.float32, 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_misaligned_arrays_are_copied(dtype):
    values = np.random.default_rng(2).standard_normal((80, 80)).astype(dtype)
    raw = bytearray(values.nbytes + 1)
    raw[1:] = values.tobytes()
    x = np.frombuffer(raw, dtype, values.size, 1).reshape(values.shape)
    assert not x.flags.aligned
    for function in (fw.softmax, fw.rms_norm, fw.sum, fw.cumsum, fw.transpose, fw.sample, lambda x: fw.matmul(x, x, bias=x[1], residual=x)):
        np.testing.assert_array_equal(function(x), function(values))
    if dtype == np.float16:
        heads = (2, 10, 4, 80)
        np.testing.assert_array_equal(*(fw.attention(*[of.reshape(heads)] * 3) for of in (x, values)))


def test_an_array_without_axes_is_one_row():
    assert fw.softmax(np.full((), 3, np.float32)).item() == 1
    assert fw.softmax(np.ones((), np.float32)).shape == ()


def test_results_are_the_same_bits_in_every_run():
    x = np.random.default_rng(0).standard_normal((300, 1000)).astype(np.float32)
    first = [fw.sum(x), fw.sum(x, "rows"), fw.cumsum(x), fw.softmax(x)]
    for again in ([fw.sum(x), fw.sum(x, "rows"), fw.cumsum(x), fw.softmax(x)] for _ in range(3)):
        assert all((a == b).all() for a, b in zip(first, again))


F32 = np.zeros((2, 3), np.float32)
F16 = np.zeros((1, 2, 1, 8), np.float16)
ERRORS = [
    (lambda: fw.softmax(F32.astype(np.float64)), TypeError, "softmax failed: the input holds float64; it needs float32, float16 or bfloat16"),
    (lambda: fw.softmax(F32.astype("M8[s]")), TypeError, "softmax failed: the input holds datetime64[s]; it needs float32, float16 or bfloat16"),
    (lambda: fw.softmax(F32, scale=-1.0), ValueError, "softmax failed: the scale is -1.0; it must be from 2^-126 to 2^127"),
    (lambda: fw.softmax([1.0]), TypeError, "ferrowarp takes a torch.Tensor or a numpy.ndarray, not list"),
    (lambda: fw.softmax(F32.astype(">f4")), TypeError, "has the other byte order"),
    (lambda: fw.cross_entropy(F32, np.zeros(3, np.int64)), ValueError, "the target has the shape [3]; it needs [2]"),
    (lambda: fw.cross_entropy(F32, np.zeros(2, np.int16)), TypeError, "it needs int64, int32 or uint8"),
    (lambda: fw.cross_entropy(F32, np.zeros(2, np.int64), reduction="all"), ValueError, "reduction is 'all'"),
    (lambda: fw.top_k(F32, 0), ValueError, "top-k failed: k is 0; it must be from 1 to 128"),
    (lambda: fw.top_k(F32, -1), ValueError, "top-k failed: k is -1; it must be from 1 to 128"),
    (lambda: fw.top_k(F32, True), TypeError, "top-k failed: k is True; it must be a whole number"),
    (lambda: fw.top_k(F32, 1, scale="a"), TypeError, "top-k failed: the scale is 'a'; it must be a number"),
    (lambda: fw.softmax(F32, True), TypeError, "dim is True; it must be a whole number"),
    (lambda: fw.softmax(F32, 1 << 70), ValueError, "dim is 1180591620717411303424; it must be from -9223372036854775808 to"),
    (lambda: fw.softmax(F32, log=1), TypeError, "softmax failed: the log is 1; it must be True or False"),
    (lambda: fw.softmax(F32, scale=10**400), ValueError, "it must be from 2^-126 to 2^127"),
    (lambda: fw.sample(F32, seed=1 << 64), ValueError, "sampling failed: seed is 18446744073709551616; it must be from -9223372036854775808"),
    (lambda: fw.sample(F32, draw=False), TypeError, "sampling failed: draw is False; it must be a whole number"),
    (lambda: fw.sample(F32, temperature=10**400), ValueError, "0; it must be a number that 64 bits hold"),
    (lambda: fw.cross_entropy(F32, np.zeros(2, np.int64), ignore_index=1 << 63), ValueError, "ignore_index is 9223372036854775808; it"),
    (lambda: fw.sum(F32, "cols"), TypeError, "dim is 'cols'; it must be a whole number"),
    (lambda: fw.sample(F32, top_p=2.0), ValueError, "sampling failed: top-p is 2"),
    (lambda: fw.top_k(F32, 1 << 31), ValueError, "top-k failed: k is 2147483648; it must be from 1 to 128"),
    (lambda: fw.top_k(F32, 1, scale=1e-50), ValueError, "top-k failed: the scale is 1e-50"),
    (lambda: fw.softmax(F32, scale=1e-50), ValueError, "softmax failed: the scale is 1e-50; it must be from 2^-126"),
    (lambda: fw.softmax(np.ma.masked_array(F32, F32 == 0)), TypeError, "a masked array would lose its mask"),
    (lambda: fw.sample(F32, top_k=0), ValueError, "sampling failed: top_k is 0; it must be from 1 to 128"),
    (lambda: fw.rms_norm(F32, np.zeros(4, np.float32)), ValueError, "RMSNorm failed: the weight has the shape [4]; it needs [3]"),
    (lambda: fw.rms_norm(F32, np.zeros(3, np.float16)), TypeError, "the weight holds float16; it needs float32"),
    (lambda: fw.layer_norm(F32, epsilon=-1.0), ValueError, "LayerNorm failed: epsilon is -1"),
    (lambda: fw.rms_norm(F32, residual=F32[:1]), ValueError, "the residual has the shape [1, 3]; it needs [2, 3]"),
    (lambda: fw.matmul(F32, F32), ValueError, "matmul failed: the second operand has the shape [2, 3]; it needs [3, 3]"),
    (lambda: fw.matmul(F32, F32[0]), ValueError, "the second operand has the shape [3]; it needs two axes, or more"),
    (lambda: fw.matmul(F32, F32.T, activation="tanh"), ValueError, "activation is 'tanh'; it must be one of None, 'relu', 'gelu'"),
    (lambda: fw.attention(F16, F16, F16[..., :4]), ValueError, "attention failed: the value tensor has the shape"),
    (lambda: fw.attention(F16[0], F16, F16), ValueError, "the query has the shape [2, 1, 8]; it needs 4 axes"),
    (lambda: fw.attention(F16.astype(np.float32), F16, F16), TypeError, "it needs float16 or bfloat16"),
    (lambda: fw.attention(F16, F16, F16, window=3), ValueError, "it needs a causal mask"),
    (lambda: fw.attention(F16, F16, F16, scale=0.0), ValueError, "attention failed: the scale is 0.0"),
    (lambda: fw.attention(F16, F16, F16, scale=1e-50), ValueError, "the scale is 1e-50; it must be from 2^-126 to 2^64"),
    (lambda: fw.attention(F16, F16, F16, causal=True, window=-1), ValueError, "attention failed: window is -1; it must be from 1 to"),
    (lambda: fw.attention(F16, F16, F16, window=-5), ValueError, "window is -5; it must be from 1 to"),
    (lambda: fw.rms_norm(F32, [1.0, 2.0, 3.0]), TypeError, "norm failed: the weight is a list; it needs a numpy.ndarray"),
    (lambda: fw.matmul(F32, np.float32(3)), TypeError, "the second operand is a float32; it needs a numpy.ndarray"),
    (lambda: fw.top_k(F32, "a"), TypeError, "k is 'a'; it must be a whole number"),
    (lambda: fw.attention(F16, F16, F16, causal="left"), ValueError, "causal is 'left'"),
    (lambda: fw.transpose(F16), ValueError, "it needs two axes"),
    (lambda: fw.transpose(F32.astype(np.float64)), TypeError, "elements of 2 or 4 bytes"),
    (lambda: fw.softmax(np.zeros((1,) * 9, np.float32)), ValueError, "has 9 axes; it needs at most 8"),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_say_what_failed_and_what_is_needed(index):
    call, kind, words = ERRORS[index]
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_whole_numbers_of_numpy_are_taken():
    one = np.int64(1)
    np.testing.assert_array_equal(fw.softmax(F32, one), fw.softmax(F32))
    assert fw.top_k(F32, one)[0].shape == (2, 1) and fw.sample(F32, seed=one, draw=one).shape == (2,)


MULTIPLY = """
import numpy, ferrowarp
x = numpy.ones((4, 8), numpy.float16)
try:
    print(ferrowarp.matmul(x, x.T)[0, 0])
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "arch, words",
    [
        ("compute_75", "no kernel for a GPU of compute capability 7.5"),
        ("compute_75,compute_80", "8.0"),
        ("nonsense", "FERROWARP_ARCH is `nonsense`; set it to architectures"),
        ("compute_999", "FERROWARP_ARCH is `compute_999`; set it to architectures"),
        ("compute_90 SYNC", "FERROWARP_SYNC is `7`; set it to 1 to wait for each launch or to 0"),
    ],
)
def test_variables_limit_the_kernels_of_the_cpu(arch, words):
    arch, _, sync = arch.partition(" ")
    environment = {**os.environ, "FERROWARP_ARCH": arch, "FERROWARP_SYNC": "7" if sync else ""}
    output = subprocess.run([sys.executable, "-c", MULTIPLY], env=environment, capture_output=True, text=True, check=True)
    assert words in output.stdout
