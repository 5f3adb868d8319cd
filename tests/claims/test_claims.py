"""Every number in README and docs that a command produces is produced again and compared; `make claims` runs all.

Add a claim to the list of its page: theory_claims, result_claims, interval_claims, performance_claims. What takes
seconds runs with the other tests; what needs MNIST or minutes is marked slow.
"""

import interval_claims
import performance_claims
import pytest
import result_claims
import theory_claims
from claim import ROOT, Claim, unit

from bilsh.experiments import FIGURES, reproduce
from bilsh.experiments.kept import page, read_kept
from bilsh.experiments.runner import read_record

pytestmark = pytest.mark.skipif(
    not result_claims.RESULTS.is_dir(), reason="a source distribution has no kept results: use a clone"
)

ALL = [
    *theory_claims.CLAIMS,
    *result_claims.CLAIMS,
    *interval_claims.CLAIMS,
    *performance_claims.CLAIMS,
]


@pytest.fixture
def mnist(mnist_folder, monkeypatch):
    """Let programs find MNIST, or skip."""
    monkeypatch.setenv("BILSH_MNIST", str(mnist_folder))
    return mnist_folder


@pytest.mark.parametrize("claim", [c for c in ALL if not c.slow], ids=lambda c: c.name)
def test_claim(claim):
    claim.check()


@pytest.mark.slow
@pytest.mark.parametrize("claim", [c for c in ALL if c.slow], ids=lambda c: c.name)
def test_slow_claim(claim, mnist):
    claim.check()


def test_the_page_of_results_is_what_its_tables_say():
    assert (result_claims.RESULTS / "README.md").read_text("utf-8") == page(result_claims.RESULTS, FIGURES)


@pytest.mark.parametrize("name", result_claims.TABLES)
def test_tables_of_the_accuracy_page(name):
    rows = list(result_claims.TABLES[name]())
    assert rows
    for method, cells, made in rows:
        for cell, value in zip(cells, made, strict=True):
            if cell or value is not None:
                assert abs(float(cell) - value) <= unit(cell) / 2 * (1 + 1e-9), (method, cell, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", result_claims.AGAIN)
def test_a_figure_made_anew_agrees_with_the_kept_one(name, tmp_path, mnist):
    outcome = reproduce([name], "full", tmp_path, mnist=mnist, cache=tmp_path / "cache", jobs=2)
    assert not outcome.failures
    made = read_record(tmp_path / "tables" / f"{name}.json")["tables"]
    compared = 0
    for table, rows in read_kept(result_claims.RESULTS / f"{name}.csv")[0].items():
        for row, again in zip(rows, made[table], strict=True):
            for column, allowed in result_claims.AGAIN[name].items():
                if row.get(column) is not None:
                    assert abs(row[column] - again[column]) <= allowed, (table, column, row, again)
                    compared += 1
    assert compared


def test_a_claim_that_is_wrong_is_found(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("It holds for 5,331 of\n2.50 things.")
    monkeypatch.setattr("claim.ROOT", tmp_path)
    Claim("page.md", r"for ([\d,]+) of ([\d.]+) things", lambda: [5331.4, 2.504]).check()
    with pytest.raises(AssertionError, match=r"says 2\.50, it is 2\.51"):
        Claim("page.md", r"for ([\d,]+) of ([\d.]+) things", lambda: [5331, 2.51]).check()
    with pytest.raises(AssertionError, match="0 places"):
        Claim("page.md", r"of (\d) men", list).check()
    assert ROOT.joinpath("pyproject.toml").is_file()
