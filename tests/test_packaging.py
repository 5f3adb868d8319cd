"""What is declared is what is needed: packages, extras, one version."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Modules whose package has another name.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "distributed": "dask",
    "faiss": "faiss-cpu",
    "lance": "pylance",
    "sklearn": "scikit-learn",
}


def names(requirements):
    return {re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def imported(module):
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "optional" and node.args:
            yield ast.literal_eval(node.args[0]) if isinstance(node.args[0], ast.Constant) else "numpy"


def test_every_package_that_is_imported_is_declared():
    declared = names(PROJECT["dependencies"])
    for requirements in PROJECT["optional-dependencies"].values():
        declared |= names(requirements)
    for module in (ROOT / "src").rglob("*.py"):
        for name in imported(module):
            top = name.split(".")[0]
            if top != "bilsh" and top not in sys.stdlib_module_names:
                assert PACKAGES.get(top, top).lower() in declared, f"{module.relative_to(ROOT)} imports {top}"


def test_the_extra_all_brings_every_extra():
    extras = PROJECT["optional-dependencies"]
    (every,) = extras["all"]
    listed = re.search(r"\[(.*)\]", every)[1].split(",")
    assert sorted(listed) == sorted(set(extras) - {"all"})


def test_there_is_one_version():
    version = PROJECT["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert released[0] == version
