"""Programs that end in the middle of something."""


def test_live_memory(program):
    assert program("""
import gpucache
with gpucache.scope("step"):
    kept = [gpucache.allocate(4096, device=-1) for _ in range(100)]
cycle = [gpucache.allocate(4096, device=-1)]
cycle.append(cycle)
raw = gpucache._gpucache.allocate(4096, -1)
print("end")
""") == "end\n"


def test_inside_a_scope(program):
    assert program("""
import sys, gpucache
with gpucache.scope("step"):
    kept = gpucache.allocate(4096, device=-1)
    gpucache.scope("never left").__enter__()
    print("end")
    sys.exit(0)
""") == "end\n"


def test_threads_that_are_inside(program):
    assert program("""
import threading, time, gpucache
started = threading.Event()
def work():
    with gpucache.scope("step"):
        kept = gpucache.allocate(4096, device=-1)
        started.set()
        while True:
            gpucache.allocate(8192, device=-1)
threading.Thread(target=work, daemon=True).start()
started.wait()
print("end")
""") == "end\n"


def test_a_generator_inside(program):
    assert program("""
import gpucache
def steps():
    with gpucache.scope("step"):
        yield gpucache.allocate(4096, device=-1)
held = steps()
kept = next(held)
print("end")
""") == "end\n"


def test_while_a_trace_runs(program):
    assert program("""
import gpucache
run = gpucache.trace()
run.start()
with gpucache.scope("step"):
    kept = gpucache.allocate(4096, device=-1)
print("end")
""") == "end\n"


def test_a_child_of_fork_ends(program):
    assert program("""
import os, gpucache
with gpucache.scope("step"):
    kept = gpucache.allocate(4096, device=-1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("end")
""") == "end\n"


def test_a_child_of_fork_allocates_and_ends(program):
    assert program("""
import multiprocessing, gpucache

@gpucache.scope("work")
def work(number):
    kept.clear()
    return gpucache.allocate(4096, device=-1).bytes + number

kept = []
if __name__ == "__main__":
    with gpucache.scope("step"):
        kept.append(gpucache.allocate(4096, device=-1))
        with multiprocessing.get_context("fork").Pool(4) as pool:
            print(sum(pool.map(work, range(100))))
""") == f"{100 * 4096 + 4950}\n"
