"""The types of the compiled module are those that nanobind writes; `make stubs` brings them up to date."""

import ast
from importlib.resources import files

import pytest

from bilsh import _native

stubgen = pytest.importorskip("nanobind.stubgen")


def definitions(source):
    """Every definition by name, whatever its layout."""
    tree = ast.parse(source)
    return {
        node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def test_stub_file_is_up_to_date():
    generator = stubgen.StubGen(_native)
    generator.put(_native)
    written = files("bilsh").joinpath("_native.pyi").read_text()
    assert definitions(written) == definitions(generator.get()), "run `make stubs`"
