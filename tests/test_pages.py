"""Links of README and docs lead somewhere. (What they show is run by conftest.py at the top.)"""

import re
from pathlib import Path

import pytest

import bilsh

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_reference_lists_every_public_name():
    listed = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8").split()
    for name in bilsh.__all__:
        value = getattr(bilsh, name)
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if not is_error and name != "theory":
            assert name in listed, f"docs/reference/api.md does not list bilsh.{name}"
