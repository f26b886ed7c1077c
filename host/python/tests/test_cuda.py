"""What only a GPU has: streams, CUDA graphs, repeatable bits."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import ferrowarp as fw


def calls():
    """A call of each operation, with scratch memory where there is some."""
    torch.manual_seed(0)
    x, wide = torch.randn(64, 1000, device="cuda"), torch.randn(2, 300_000, device="cuda")
    h = torch.randn(2, 1, 8, 128, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(2, 4000, 8, 128, device="cuda", dtype=torch.bfloat16)
    a, b = torch.randn(64, 4096, device="cuda").bfloat16(), torch.randn(4096, 64, device="cuda").bfloat16()
    targets = torch.randint(1000, (64,), device="cuda")
    return {
        "softmax": lambda: fw.softmax(x),
        "softmax of wide rows": lambda: fw.softmax(wide),
        "cross entropy": lambda: fw.cross_entropy(x, targets, reduction="none"),
        "norm": lambda: fw.layer_norm(x),
        "top-k": lambda: fw.top_k(x, 5)[1],
        "sample": lambda: fw.sample(x, top_k=50, seed=3),
        "decode": lambda: fw.attention(h, k, k),
        "split matmul": lambda: fw.matmul(a, b),
        "sums": lambda: fw.sum(wide),
        "column sums": lambda: fw.sum(x, "rows"),
        "cumulative sums": lambda: fw.cumsum(wide),
        "transpose": lambda: fw.transpose(x),
    }


@pytest.mark.parametrize("name", list(calls()))
def test_results_are_the_same_bits_in_every_run_stream_and_graph(name):
    call = calls()[name]
    expected = call()
    for _ in range(3):
        assert torch.equal(call(), expected)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        on_stream = call()
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(on_stream, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = call()
    for _ in range(3):
        recorded.zero_()
        graph.replay()
        assert torch.equal(recorded, expected)


def test_work_waits_for_torchs_stream():
    """The input is written late on a side stream; a call on another stream would read zeros."""
    x = torch.zeros(1 << 20, device="cuda").view(1024, 1024)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(1.0)
        got = fw.sum(x)
    stream.synchronize()
    assert (got == 1024).all()


FIRST_CALL = """
import torch, ferrowarp as fw
x = torch.randn(33, 77, device="cuda", dtype=torch.float16)
fw.sum(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = fw.softmax(x)
graph.replay()
assert torch.equal(y, fw.softmax(x))
"""


def test_a_first_call_can_be_captured():
    """In a new process its kernel is loaded during the capture."""
    subprocess.run([sys.executable, "-c", FIRST_CALL], check=True)


def test_gradients_in_a_graph():
    x = torch.randn(64, 256, device="cuda", requires_grad=True)
    weight = torch.randn(256, device="cuda", requires_grad=True)

    def step():
        x.grad = weight.grad = None
        fw.softmax(fw.rms_norm(x, weight)).square().sum().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    expected = x.grad.clone(), weight.grad.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    assert torch.equal(x.grad, expected[0]) and torch.equal(weight.grad, expected[1])


def test_an_operand_on_another_device_is_named():
    x = torch.zeros(2, 3, device="cuda")
    with pytest.raises(ValueError, match="norm failed: the input is on cuda:0 and the weight on the CPU; move one of them"):
        fw.rms_norm(x, torch.zeros(3))
