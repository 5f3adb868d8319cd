"""Numbers of the performance pages. The place for claims about time, memory and search.

Times depend on the processor: claim what a program wrote into the repository (docs/performance-tables.md,
benchmarks/results), or ratios with a wide tolerance, and mark what must be measured anew as slow.
"""

import re

from claim import ROOT, Claim

TABLES = "docs/performance-tables.md"


def measured(section, case, column):
    """Read a number of the measured tables: section's title, how its row begins, and the column's title."""
    text = (ROOT / TABLES).read_text("utf-8")
    block = text.partition(f"## {section}")[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block.splitlines()
        if line.startswith("|")
    ]
    header, rows = lines[0], [row for row in lines[2:] if row[: len(case)] == list(case)]
    if len(rows) != 1:
        raise AssertionError(f"{len(rows)} rows of {section} begin with {case}.")
    return float(re.findall(r"[\d,.]+", rows[0][header.index(column)])[0].replace(",", ""))


CLAIMS: list[Claim] = []
