"""NumPy's softmax as one writes it, on one thread: the peer of `cargo bench softmax/softmax/f32/4096x1024` on a CPU.

python3 benches/peers/softmax_numpy.py [--rows N] [--cols N]
"""

import argparse
import statistics
import time

import numpy as np

SAMPLES = 20

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=4096)
parser.add_argument("--cols", type=int, default=1024)
options = parser.parse_args()

x = np.random.default_rng(42).uniform(-8, 8, (options.rows, options.cols)).astype(np.float32)
times = []
for _ in range(SAMPLES + 1):
    start = time.perf_counter()
    e = np.exp(x - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    times.append(time.perf_counter() - start)
assert np.allclose(y.sum(1), 1, atol=1e-5)
# The first one is a warm-up.
milliseconds = [1e3 * seconds for seconds in times[1:]]
print(
    f"NumPy {np.__version__}, {options.rows}x{options.cols} f32, one thread: median {statistics.median(milliseconds):.2f} ms, "
    f"fastest {min(milliseconds):.2f} ms"
)
