"""Statistics, diagnosis and traces."""

import errno
import os
import pickle

import pytest

import gpucache


def steps(name, number=20):
    for _ in range(number):
        with gpucache.scope(name):
            one = gpucache.allocate(4096, device=-1)
            gpucache.allocate(8192, device=-1)
            del one


def test_statistics_are_objects_dictionaries_and_tables():
    steps("told")
    stats = gpucache.stats("told")
    assert stats.entries == stats["entries"] == 20 and stats.plan.plans == stats["plan"]["plans"]
    assert "20 entries" in str(stats)
    assert "entries" in dir(stats)
    with pytest.raises(AttributeError, match="entries"):
        stats.entires
    process = gpucache.stats()
    assert any(scope.name == "told" for scope in process.scopes)
    assert "told" in gpucache.report() and "told" in gpucache.scopes()
    assert gpucache.stats("nobody") is None


def test_a_diagnosis_names_causes_and_remedies():
    steps("healthy", 40)
    healthy = gpucache.diagnose("healthy")
    assert healthy.is_healthy and not healthy.findings and "no problem" in str(healthy)
    kept = []
    for step in range(64):
        with gpucache.scope("irregular"):
            kept += [gpucache.allocate(256 + 64 * step, device=-1) for _ in range(1 + step * step % 11)]
    found = gpucache.diagnose("irregular")
    assert not found.is_healthy and found.findings[0].cause and found.findings[0].remedy
    assert gpucache.diagnose("nobody") is None


def test_a_trace_becomes_files(tmp_path):
    with gpucache.trace() as run:
        steps("traced")
    assert (run.allocations, run.frees, run.lost) == (40, 40, 0) and len(run) >= 80
    run.page(tmp_path / "run.html", "my run")
    run.snapshot(tmp_path / "run.pickle")
    run.perfetto(tmp_path / "run.json")
    run.csv(tmp_path / "run.csv")
    assert "my run" in (tmp_path / "run.html").read_text()
    with open(tmp_path / "run.pickle", "rb") as file:
        assert pickle.load(file)["device_traces"]
    again = gpucache.trace.read(tmp_path / "run.csv")
    assert len(again) == len(run)
    gpucache.page(tmp_path / "run.csv", tmp_path / "again.html")
    gpucache.snapshot(again, tmp_path / "again.pickle")
    with pytest.raises(gpucache.Error, match="copy that file"):
        again.csv(tmp_path / "copy.csv")


def test_traces_in_wrong_use(tmp_path):
    with pytest.raises(gpucache.Error, match="has not ended"):
        gpucache.trace().page(tmp_path / "page.html")
    with gpucache.trace(events=1) as run:
        steps("lost")
    assert run.lost > 0
    with pytest.raises(TypeError, match="name is the title of the page.*pass a str"):
        run.page(tmp_path / "page.html", None)


def test_a_process_has_one_trace_at_a_time():
    with gpucache.trace() as outer:
        with pytest.raises(gpucache.Error, match="another trace is on"), gpucache.trace():
            pass
        with pytest.raises(gpucache.Error, match="another trace is on"):
            outer.start()
        with pytest.raises(gpucache.Error, match="this trace is not on"):
            gpucache.trace().stop()
        steps("one trace")
    assert outer.allocations == 40
    with pytest.raises(gpucache.Error, match=r"call start\(\)"):
        outer.stop()
    assert outer.allocations == 40


def test_a_trace_starts_again():
    run = gpucache.trace()
    for number in (1, 2):
        run.start()
        with pytest.raises(gpucache.Error, match="has not ended"):
            run.allocations
        steps("started again", number)
        run.stop()
        assert run.allocations == 2 * number


def test_a_trace_that_is_dropped_stops_no_other():
    gpucache.trace().start()
    with gpucache.trace() as run:
        steps("after a dropped trace", 1)
    assert run.allocations == 2


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(tmp_path):
    missing = tmp_path / "missing.csv"
    with pytest.raises(FileNotFoundError) as failure:
        gpucache.trace.read(missing)
    assert failure.value.filename == str(missing)
    assert str(failure.value) == f"[Errno 2] No such file or directory: {str(missing)!r}"
    with pytest.raises(FileNotFoundError):
        gpucache.page(missing, tmp_path / "page.html")
    with pytest.raises(IsADirectoryError):
        gpucache.trace.read(tmp_path)
    (tmp_path / "text.csv").write_text("no trace\n")
    with pytest.raises(gpucache.Error, match="no column"):
        gpucache.trace.read(tmp_path / "text.csv")


def test_a_device_has_the_number_that_functions_take():
    held = gpucache.allocate(1 << 20, device=-1)
    [host] = [used for used in gpucache.stats().devices if used.kind == "Host"]
    assert host.device == -1 and host.trace_device >= 1
    assert gpucache.device_stats(host.device).reserved_bytes == host.memory.bytes
    assert f"{host.trace_device} (host)" in gpucache.report()
    assert held.bytes == 1 << 20


def test_a_file_that_cannot_be_written_is_an_error_of_the_system(tmp_path):
    with gpucache.trace() as run:
        steps("written", 1)
    path = tmp_path / "no folder" / "run"
    for write in (run.page, run.snapshot, run.perfetto, run.csv):
        with pytest.raises(FileNotFoundError) as failure:
            write(path)
        assert str(failure.value) == f"[Errno 2] No such file or directory: {str(path)!r}"
        with pytest.raises(IsADirectoryError):
            write(tmp_path)
        with pytest.raises(OSError, match="No space left") as failure:
            write("/dev/full")
        assert failure.value.errno == errno.ENOSPC and failure.value.filename == "/dev/full"


def test_paths_are_those_of_open(tmp_path):
    with gpucache.trace() as run:
        steps("paths", 1)
    # The second name is no text in UTF-8.
    for path in (bytes(tmp_path / "run.csv"), bytes(tmp_path) + b"/\xff.csv"):
        run.csv(path)
        assert len(gpucache.trace.read(path)) == len(gpucache.trace.read(os.fsdecode(path))) == len(run)
    calls = [
        ("path", gpucache.trace.read), ("path", run.page), ("path", run.snapshot), ("path", run.perfetto), ("path", run.csv),
        ("run", lambda path: gpucache.page(path, tmp_path / "page.html")), ("run", lambda path: gpucache.snapshot(path, tmp_path / "file")),
        ("path", lambda path: gpucache.page(run, path)), ("path", lambda path: gpucache.snapshot(run, path)),
    ]
    for name, call in calls:
        for wrong in (5, None, [], 0.5):
            with pytest.raises(TypeError, match=f"{name} is the path of a file, and .* is none: pass a str, bytes or os.PathLike"):
                call(wrong)
        for wrong in ("a\0b", b"a\0b"):
            with pytest.raises(ValueError, match=rf"{name} is the path of a file, and b?'a\\x00b' has a null character"):
                call(wrong)


def test_a_trace_leaves_out_frees_of_blocks_from_before():
    held = gpucache.allocate(4096, device=-1)
    with gpucache.trace() as run:
        del held
    assert (run.allocations, run.frees) == (0, 0) and "from before the trace" in gpucache.trace.__doc__


def test_a_trace_is_true_before_it_has_a_length():
    with gpucache.trace() as run:
        assert run
    assert run and len(run) == 0


def test_a_handler_of_a_signal_may_start_a_trace(program):
    assert program("""
import contextlib, signal, time, gpucache
is_inside = False
def handler(*_):
    global is_inside
    if not is_inside:
        is_inside = True
        with contextlib.suppress(gpucache.Error), gpucache.trace():
            pass
        is_inside = False
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
end = time.monotonic() + 3
while time.monotonic() < end:
    with contextlib.suppress(gpucache.Error), gpucache.trace():
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
print("end")
""") == "end\n"
