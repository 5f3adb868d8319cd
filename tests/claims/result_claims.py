"""Numbers of docs/results and docs/accuracy.md: from the kept tables, and the tables themselves made anew."""

import re
from functools import cache

import pytest
from claim import ROOT, Claim

import bilsh
import encoder_choice
from bilsh import datasets
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.experiments import FIGURES
from bilsh.experiments.base import select
from bilsh.experiments.kept import read_kept
from bilsh.experiments.peers import split
from bilsh.experiments.variants import ASYMMETRIC, DENSE, HAMMING, OURS

RESULTS = ROOT / "docs" / "results"
PAGE = "docs/accuracy.md"


def kept(figure, table):
    return read_kept(RESULTS / f"{figure}.csv")[0][table]


def markdown_tables(file):
    """Tables of a page: lists of rows, each a list of cells without emphasis; a part in parentheses is left out."""
    tables, rows = [], []
    for line in [*(ROOT / file).read_text("utf-8").splitlines(), ""]:
        if line.startswith("|"):
            cells = [re.sub(r"\*\*|`|\(.*?\)", "", cell).strip() for cell in line.strip("|").split("|")]
            if not set("".join(cells)) <= set("-: "):
                rows.append(cells)
        elif rows:
            tables.append(rows)
            rows = []
    return tables


def lengths_in(header):
    return [int(re.sub(r"\D", "", cell)) for cell in header]


def variants_table():
    """Cells of the first table of the accuracy page with what the kept table says: (printed, made)."""
    header, *rows = markdown_tables(PAGE)[0]
    bits, times = kept("beyond", "bits"), lengths_in(header[1:5])
    for name, *cells in rows:
        made = [select(bits, method=name, query=HAMMING, bits=length)[0]["map"] for length in times]
        row = select(bits, method=name, query=ASYMMETRIC, bits=784)[0]
        yield name, cells, [*made, row["map"], row["microseconds"]]


def copies_table():
    header, *rows = markdown_tables(PAGE)[1]
    copies = select(kept("beyond", "copies"), copy="half size")
    for name, *cells in rows:
        method = (
            name
            if name.startswith(("sign", "kernel, "))
            else next(
                row["method"] for row in copies if row["method"].endswith(name.removeprefix("kernel: "))
            )
        )
        made = [
            select(copies, method=method, bits=length)[0]["recall_at_1"] for length in lengths_in(header[1:])
        ]
        yield name, cells, made


def peers_table():
    header, *rows = markdown_tables(PAGE)[2]
    peers = kept("beyond", "peers")
    for name, *cells in rows:
        found = [select(peers, method=name, bytes=size) for size in lengths_in(header[1:])]
        yield name, cells, [rows[0]["recall_at_10"] if rows else None for rows in found]


def equal_time():
    rows = select(kept("beyond", "time"), query=HAMMING)
    dense, ours = (select(rows, method=method)[0] for method in (DENSE, OURS))
    return [dense["bits"], dense["map"], ours["bits"], ours["map"]]


@cache
def split_mnist():
    """Queries and database as in the peers' table, and the exact neighbours."""
    queries, stored = split(datasets.mnist().X, 500, 0)
    return queries, stored, exact_neighbors(queries, stored, 10)[0]


def reranked():
    """Recall@10 after re-ranking the best 100 by asymmetric angle codes of 32 and 64 bytes."""
    queries, stored, exact = split_mnist()
    result = []
    for size in (32, 64):
        encoder = bilsh.AngleEncoder(8 * size, random_state=0).fit(stored)
        index = bilsh.Index(encoder.transform(stored), encoder)
        hits = index.search(queries, k=10, mode="asymmetric", rerank=stored)
        result.append(recall_of_ids(hits.ids, exact))
    return result


def chosen_for_digits():
    """Recall of both encoders on digits, and how far the chosen one is below the better."""
    judged = encoder_choice.judge("digits", encoder_choice.digits(), 1024)
    return [judged.angle, judged.kernel, judged.below]


@cache
def descriptors():
    """Numbers and precisions of plain descriptors; photographs lie in BILSH_DATA."""
    tool = pytest.importorskip("descriptor_precision")
    if not (tool.DATA / "flickr").is_dir():
        pytest.skip("photographs are not here")
    return {name: [numbers, *told] for name, numbers, _, told in tool.measured(vlad=False)}


def descriptor(name):
    pattern = rf"\| {name} \| ([\d,]+) \| [\d.]+ \| (.*?) \|\n"
    return Claim(PAGE, pattern, lambda: descriptors()[name], tolerance=0.02, slow=True)


def recall_against_bits():
    """Rows of the table about MNIST: recall@10 of angle and kernel codes, by distance, by scores, re-ranked."""
    X = datasets.mnist().X.reshape(70_000, -1)
    points = bilsh.bits_curve(X, until=0.9, by="reranked", times=False).points
    rows = []
    for n_bits in sorted({point.n_bits for point in points}):
        both = {point.encoder: point.at_10 for point in points if point.n_bits == n_bits}
        told = [[one.hamming, one.asymmetric, one.reranked] for one in (both["angle"], both["kernel"])]
        rows += [n_bits, n_bits // 8, *told[0], *told[1]]
    return rows


TABLES = {"variants": variants_table, "copies": copies_table, "peers": peers_table}
"""Tables of the accuracy page, each compared cell by cell."""

CLAIMS = [
    Claim(
        PAGE,
        r"code needs for (\d+) bits \(([\d.]+)\), the default encodes ([\d,]+) bits \(([\d.]+)\)",
        equal_time,
    ),
    Claim(
        PAGE,
        r"give recall@10 of (\.\d+) on MNIST; of 64 bytes (\.\d+)",
        reranked,
        tolerance=0.01,
        slow=True,
    ),
    Claim(PAGE, r"\| (64 \| 8 \| .*?) \|\n\nThe lengths", recall_against_bits, tolerance=0.02, slow=True),
    *map(descriptor, ("hog-color", "hog, side 64", "hog, side 128", "pixels")),
    Claim(
        PAGE,
        r"\| digits \| 1,797 x 64 \| 1,024 \| (\.\d+) \| (\.\d+) \| kernel \| (\.\d+) \|",
        chosen_for_digits,
        tolerance=0.02,
        slow=True,
    ),
]

AGAIN = {
    "rff": {"assumed": 0, "above_upper": 0},
    "bounds": {"measured": 0.01, "exact": 1e-5},
    "covariance": {"measured": 0.01, "exact": 1e-5},
    "mnist": {"map": 0.04},
}
"""Figures that `make claims` makes anew at full size, with the columns it compares and how much they may differ."""

assert AGAIN.keys() <= FIGURES.keys()
