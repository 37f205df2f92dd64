"""Environment variables, in processes of their own."""

import subprocess
import sys

import pytest

WORK = """
import gpucache
with gpucache.scope("step"):
    kept = gpucache.allocate(4096, device=-1)
"""

WITHOUT_SCOPE = """
import gpucache
for step in range(100):
    kept = [gpucache.allocate(4096 * number, device=-1) for number in range(1, 5)]
    del kept
stats = gpucache.stats("auto")
print(stats.hits, stats.recycled, stats.misses, stats.busy_bytes, stats.idle_bytes, stats.plan.plans)
"""


@pytest.mark.parametrize("work, scope", [(WORK, "step"), (WITHOUT_SCOPE, "auto")])
def test_watch_writes_the_memory_of_scopes(program, monkeypatch, tmp_path, work, scope):
    unwatched = program(work)
    monkeypatch.setenv("GPUCACHE_WATCH", str(tmp_path / "watch.txt"))
    assert program(work) == unwatched
    text = (tmp_path / "watch.txt").read_text()
    assert text.startswith("process ") and f"\n{scope} " in text


def test_watch_writes_while_the_program_runs(program, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUCACHE_WATCH", str(tmp_path / "watch.txt"))
    program(WORK + f"""
import pathlib, time
path, end = pathlib.Path({str(tmp_path / "watch.txt")!r}), time.monotonic() + 30
while not (path.exists() and "step" in path.read_text()):
    assert time.monotonic() < end
    time.sleep(0.05)
""")


def test_watch_starts_when_pytorch_initialises_cuda(program, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUCACHE_WATCH", str(tmp_path / "watch.txt"))
    program("""
import ctypes, os, warnings
warnings.simplefilter("ignore")  # the double has no class of an exception
import torch, gpucache, gpucache.torch
gpucache.torch.install()
assert not os.path.exists(os.environ["GPUCACHE_WATCH"])
ctypes.CFUNCTYPE(None, ctypes.c_int)(torch.state.allocator.functions["set_init_fn"])(1)
""", doubles=True)
    assert (tmp_path / "watch.txt").exists()


def test_watch_says_that_its_file_cannot_be_written(monkeypatch, tmp_path):
    path = tmp_path / "no folder" / "watch.txt"
    monkeypatch.setenv("GPUCACHE_WATCH", str(path))
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == f"gpucache: GPUCACHE_WATCH={path}: No such file or directory (os error 2)\n"


def test_trace_writes_the_events_of_the_whole_run(program, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUCACHE_TRACE", str(tmp_path / "run.csv"))
    program(WORK)
    monkeypatch.delenv("GPUCACHE_TRACE")
    assert program(f"import gpucache; print(gpucache.trace.read({str(tmp_path / 'run.csv')!r}).allocations)") == "1\n"
    assert ",enter," in (tmp_path / "run.csv").read_text()


def test_limit_holds_from_the_first_allocation(program, monkeypatch):
    monkeypatch.setenv("GPUCACHE_LIMIT", "1MiB")
    assert program("""
import gpucache
try:
    gpucache.allocate(2 << 20, device=-1)
except gpucache.OutOfMemoryError as error:
    print("by its limit" in str(error))
""") == "True\n"


def test_empty_values_have_no_effect(program, monkeypatch):
    monkeypatch.setenv("GPUCACHE_WATCH", "")
    monkeypatch.setenv("GPUCACHE_TRACE", "")
    program(WORK)
