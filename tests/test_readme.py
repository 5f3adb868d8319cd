"""What README and docs show, runs; their links lead somewhere."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
PAGES = [README, *sorted((README.parent / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name} {number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_readme_and_docs_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "a page", "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target
