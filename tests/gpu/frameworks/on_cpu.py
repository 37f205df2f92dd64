"""Stands in for `torch.cuda` without a GPU, so that the logic of these programs can be tried anywhere. It measures nothing."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Anything:
    """A stream or an event that does nothing."""

    cuda_stream = 0
    device = "cpu"

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, _):
        return lambda *_, **__: self


class Graph(Anything):
    """A list of operations. Unlike a CUDA graph, it also runs while it is captured."""

    def __init__(self):
        self.operations = []

    def pool(self):
        return (0, 0)

    def replay(self):
        with torch.no_grad():
            for function, given, named, results in self.operations:
                for old, new in zip(tree_leaves(results), tree_leaves(function(*given, **named))):
                    # An operation in place has its result already.
                    if isinstance(old, torch.Tensor) and old is not new:
                        old.copy_(new)


class Capture(TorchDispatchMode):
    """Stands in for `torch.cuda.graph`."""

    def __init__(self, graph, **_):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        # What autograd knows of the tensors is no part of a graph.
        given, named, kept = tree_map(_detached, (args, kwargs or {}, results))
        self.graph.operations.append((function, given, named, kept))
        return results


def _detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _gives(value):
    """A function of its own for each name, because `torch.compile` refuses one function under two names."""
    return lambda *_, **__: value


@contextlib.contextmanager
def _block(*_, **__):
    yield


def stand_in():
    cuda = torch.cuda
    cuda.Stream = cuda.Event = cuda.ExternalStream = Anything
    cuda.CUDAGraph = Graph
    cuda.current_stream = cuda.default_stream = lambda *_: Anything()
    cuda.stream, cuda.graph = _block, Capture
    cuda.graph_pool_handle = lambda: (0, 0)
    cuda.make_graphed_callables = lambda function, *_, **__: function
    for name in ("synchronize", "_sleep", "empty_cache", "reset_peak_memory_stats", "set_per_process_memory_fraction"):
        setattr(cuda, name, _gives(None))
    for name in ("max_memory_reserved", "max_memory_allocated", "memory_reserved", "memory_allocated"):
        setattr(cuda, name, _gives(0))
    cuda.memory_stats = lambda *_: {"num_device_alloc": 0, "num_device_free": 0}
    cuda.memory_summary = lambda *_: ""
    cuda.mem_get_info = lambda *_: (0, 80 << 30)
    cuda.manual_seed_all = _gives(None)
    torch.Tensor.record_stream = _gives(None)
    torch.Tensor.pin_memory = lambda tensor: tensor
