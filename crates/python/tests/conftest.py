"""What all tests share."""

import pathlib
import subprocess
import sys

import pytest

#: Modules that stand for frameworks which are not installed.
DOUBLES = pathlib.Path(__file__).parent / "doubles"


@pytest.fixture
def program(tmp_path):
    """Runs a program in a process of its own, and returns what it printed. It must end with exit code 0 and say nothing on stderr."""

    def run(text, *, doubles=False, code=0):
        path = tmp_path / "program.py"
        path.write_text((f"import sys; sys.path.insert(0, {str(DOUBLES)!r})\n" if doubles else "") + text)
        done = subprocess.run([sys.executable, "-X", "faulthandler", str(path)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (code, ""), done.stderr
        return done.stdout

    return run
