"""Links of README and docs lead somewhere, and the list of claims fits them. (What they show is run by conftest.py.)"""

import re
import tomllib
from pathlib import Path

import pytest

import bilsh
from bilsh.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# What a source distribution leaves out.
LEFT_OUT = [] if (ROOT / ".git").exists() else PROJECT["tool"]["scikit-build"]["sdist"]["exclude"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        path = (page.parent / target).resolve()
        elsewhere = target.startswith("http") or any(path.is_relative_to(ROOT / part) for part in LEFT_OUT)
        assert elsewhere or path.exists(), target


def test_the_reference_lists_every_public_name():
    listed = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8").split()
    for name in bilsh.__all__:
        value = getattr(bilsh, name)
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if not is_error and name != "theory":
            assert name in listed, f"docs/reference/api.md does not list bilsh.{name}"


def test_every_variable_of_the_environment_is_told():
    told = set(re.findall(r"`(BILSH_[A-Z_]+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    asked = re.compile(r"(?:environ(?:\.get)?[\[(]|getenv\()\"(BILSH_[A-Z_]+)\"")
    sources = [
        path
        for room in ("src", "tests")
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".cpp")
    ]
    assert {name for path in sources for name in asked.findall(path.read_text("utf-8"))} == told


def claims():
    """Page, quoted sentence and what shows it, for every row of the list."""
    page = None
    for line in (ROOT / "docs" / "contributor" / "claims.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            page = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| claim |"):
            claim, shown = line.strip("| ").rsplit(" | ", 1)
            yield page, claim, re.findall(r"`([^`]+)`", shown)


@pytest.mark.parametrize(("page", "claim", "shown"), list(claims()))
def test_claims_stand_on_their_page_and_something_shows_them(page, claim, shown):
    assert claim in " ".join((ROOT / page).read_text("utf-8").split())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert shown
    for what in shown:
        kind, _, rest = what.partition(" ")
        if "::" in what:
            file, _, test = what.partition("::")
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), what
        elif kind == "make":
            assert rest in targets, what
        elif kind == "python":
            assert (ROOT / rest.split()[0]).is_file(), what
        else:
            assert rest.split()[0] in COMMANDS, what
