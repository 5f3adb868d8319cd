"""Tables of codes at equal bytes say what the kept measurements say."""

import re
from pathlib import Path

import learned_codes

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_of_all_tables_is_that_of_the_measurements():
    made = learned_codes.tables(DOCS / "results" / "learned.csv")
    assert (DOCS / "results" / "learned.md").read_text("utf-8") == made + "\n"


def test_rows_of_the_accuracy_page_are_those_of_all_tables():
    every = (DOCS / "results" / "learned.md").read_text("utf-8").splitlines()
    page = (DOCS / "accuracy.md").read_text("utf-8").splitlines()
    shown = [line for line in page if re.search(r"\(\d\) \|", line) and re.search(r"[±+-] ?\.\d", line)]
    assert len(shown) > 30
    assert set(shown) <= set(every)
