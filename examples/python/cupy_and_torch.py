"""CuPy and PyTorch on one GPU: memory that one of them dropped serves the other.

    python examples/python/cupy_and_torch.py
    python examples/python/cupy_and_torch.py --gpucache
"""

import argparse

import cupy
import torch

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--gpucache", action="store_true", help="both allocate by gpucache")
options = parser.parse_args()
if options.gpucache:
    import gpucache.cupy
    import gpucache.torch

    gpucache.torch.install()  # before the first tensor on the GPU
    gpucache.cupy.install()


def in_use():
    """Megabytes of the GPU that are in use, as the driver sees it."""
    free, total = torch.cuda.mem_get_info()
    return (total - free) >> 20


torch.ones(1, device="cuda")
stream = torch.cuda.current_stream()
at_start = in_use()
with cupy.cuda.ExternalStream(stream.cuda_stream):
    for round in range(4):
        signal = cupy.sin(cupy.linspace(0, 100, 1 << 28, dtype=cupy.float32))  # several GiB, one after the other
        tensor = torch.as_tensor(signal, device="cuda")  # shares CuPy's memory
        mean = float(tensor.square().mean())
        del signal, tensor
        noise = torch.randn(1 << 29, device="cuda")  # 2 GiB
        deviation = float(cupy.asarray(noise).std())  # shares PyTorch's memory
        del noise
        print(f"round {round}: mean {mean:.3f}, deviation {deviation:.3f}, {in_use() - at_start} MiB in use")
