"""The programs in the documentation, and what the package consists of."""

import ctypes
import doctest
import importlib
import importlib.metadata
import pathlib
import re

import pytest

import gpucache

MODULES = ["", "._arguments", "._errors", "._memory", "._scopes", "._stats", "._trace"]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    done = doctest.testmod(importlib.import_module("gpucache" + module))
    assert done.failed == 0


def test_each_public_name_has_documentation_and_an_example():
    without = [name for name in gpucache.__all__ if not (getattr(gpucache, name).__doc__ or "").strip()]
    assert without == []


def test_the_example_of_the_readme_for_the_host():
    readme = pathlib.Path(__file__).parent.parent / "README.md"
    programs = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    for program in programs:
        compile(program, "README.md", "exec")
    [of_host] = [program for program in programs if "device=-1" in program]
    exec(of_host, {})


def test_the_version_is_that_of_the_installed_package():
    assert gpucache.__version__ == importlib.metadata.version("gpucache")


def test_the_compiled_part_is_a_c_library_too():
    library = ctypes.CDLL(gpucache._gpucache.__file__)
    assert library.gpucache_abi_version() == 1


def test_type_hints_are_installed():
    folder = pathlib.Path(gpucache.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_gpucache.pyi").exists()
    hints = (folder / "_gpucache.pyi").read_text()
    missing = [name for name in dir(gpucache._gpucache) if not name.startswith("_") and not re.search(rf"(def|class) {name}\b", hints)]
    assert missing == []
