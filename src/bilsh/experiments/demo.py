"""The story behind `bilsh demo`: handwritten digits, the paper's methods and ours, side by side.

Offline and small: 1,797 images of 8 x 8 that ship with scikit-learn. Encodes, stores, searches, measures; writes
pictures and a report that is one file.
"""

from __future__ import annotations

import base64
import html
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh import datasets, evaluation
from bilsh.encoders.presets import METHODS
from bilsh.errors import optional
from bilsh.experiments import plots
from bilsh.files import replace_file

TABLE_BITS = 256
PICTURE_BITS = (32, 64, 128, 256, 512, 1024)
REPETITIONS = 3
RECALL_AT = 100
STORE_BITS = 1024
QUERIES = 8
NEIGHBOURS = 6
MORE = "they need matplotlib, pip install 'bilsh[plot]'."


@dataclass(frozen=True, slots=True)
class Row:
    """One encoder's line of the table."""

    method: str
    paper: bool
    n_bits: int
    parameter_bytes: int
    microseconds: float
    precision: float
    recall: float


@dataclass(frozen=True, slots=True)
class Story:
    """What the story comes to: for programs, and line by line for people."""

    data: dict[str, Any]
    lines: list[str]


def methods(n_bits: int, bandwidth: float, seed: int) -> Iterator[tuple[str, bool, Any]]:
    """Yield (name, whether the paper has it, encoder) of everything the demonstration compares."""
    angle: dict[str, Any] = {"random_state": seed}
    kernel = {**angle, "bandwidth": bandwidth}
    for label, method, settings in (
        ("LSH-angle", "lsh-angle", angle),
        ("bilinear angle", "bilinear-angle", angle),
        ("LSH-SIK (dense)", "lsh-sik", kernel),
        ("BLSH-SIK, m = 1", "blsh-sik", kernel),
        ("BLSH-SIK, m = 5", "blsh-sik", {**kernel, "oversampling": 5}),
        ("circulant SIK", "circulant-sik", kernel),
        ("ours: KernelEncoder", "kernel", kernel),
        ("ours: Hadamard kernel", "hadamard-kernel", kernel),
        ("ours: AngleEncoder", "angle", angle),
    ):
        yield label, not label.startswith("ours"), METHODS[method].make(n_bits, **settings)


def measure(images: NDArray[np.float64], n_bits: int, repetitions: int = REPETITIONS) -> list[Row]:
    """Fit, encode and evaluate every method by the paper's protocol; mean over repetitions."""
    found: dict[str, list[Row]] = {}
    for seed in range(repetitions):
        truth = evaluation.ground_truth(images, n_queries=100, rng=seed)
        for name, paper, encoder in methods(n_bits, truth.threshold, seed):
            codes = encoder.fit(images).transform(images)
            best = min(_seconds(encoder, images) for _ in range(3))
            ranking = evaluation.rank_codes(codes[truth.queries], codes[truth.database], truth.neighbors)
            row = Row(
                name,
                paper,
                n_bits,
                encoder.parameter_bytes_,
                1e6 * best / len(images),
                evaluation.mean_average_precision(ranking),
                float(evaluation.recall_at_k(ranking, RECALL_AT).mean()),
            )
            found.setdefault(name, []).append(row)
    return [
        Row(
            name,
            rows[0].paper,
            n_bits,
            rows[0].parameter_bytes,
            min(row.microseconds for row in rows),
            float(np.mean([row.precision for row in rows])),
            float(np.mean([row.recall for row in rows])),
        )
        for name, rows in found.items()
    ]


def _seconds(encoder: Any, images: NDArray[np.float64]) -> float:
    start = time.perf_counter()
    encoder.transform(images)
    return time.perf_counter() - start


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    lines = [f"{'method':<24}{'bits':>6}{'parameters':>13}{'time/item':>12}{'mAP':>8}{'recall@100':>12}"]
    for row in rows:
        parameters, microseconds = f"{row.parameter_bytes:,} B", f"{row.microseconds:.2f} us"
        lines.append(
            f"{row.method:<24}{row.n_bits:>6}{parameters:>13}{microseconds:>12}{row.precision:>8.3f}{row.recall:>12.3f}"
        )
    return "\n".join(lines)


def picture(rows: Sequence[Row], path: Path) -> None:
    """Save mean average precision and recall against bits: the paper's dashed, ours solid, names at the ends."""
    figure, panels = plots.panels(1, 2, width=5.8, height=4.5)
    for axes, value, label in (
        (panels[0, 0], "precision", "mean average precision"),
        (panels[0, 1], "recall", f"recall@{RECALL_AT}"),
    ):
        lengths = sorted({row.n_bits for row in rows})
        least = min(getattr(row, value) for row in rows)
        axes.set(xscale="log", xlabel="bits", ylabel=label, ylim=(max(0.0, least - 0.05), 1))
        axes.set_xlim(0.9 * lengths[0], 5 * lengths[-1])
        axes.set_xticks(lengths, [f"{n_bits:,}" for n_bits in lengths])
        axes.minorticks_off()
        for name in dict.fromkeys(row.method for row in rows):
            line = [row for row in rows if row.method == name]
            style = plots.method_style(name)
            if line[0].paper:
                style = style | {"linestyle": "--", "linewidth": 1.2}
            points = [row.n_bits for row in line], [getattr(row, value) for row in line]
            axes.plot(*points, marker="o", markersize=4, label=name, **style)
        figure.canvas.draw()
        plots.label_lines(axes)
    shown = [row for row in rows if row.n_bits == TABLE_BITS]
    paper, ours = (max(row.precision for row in shown if row.paper == which) for which in (True, False))
    panels[0, 0].set(title=f"{TABLE_BITS} bits: ours {ours:.2f}, the paper's best {paper:.2f}")
    panels[0, 1].set(title="digits, 8 x 8, the paper's protocol")
    plots.save(figure, path.with_suffix(""), formats=("png",))


def neighbours(images: NDArray[Any], queries: NDArray[Any], hits: bilsh.Neighbors, path: Path) -> None:
    """Save a picture of each query and what was found for it, with the estimated angle and its interval."""
    plt = _pyplot()
    size = (1.25 * (NEIGHBOURS + 1), 1.6 * len(queries))
    figure, grid = plt.subplots(len(queries), NEIGHBOURS + 1, figsize=size, layout="constrained")
    for row, query, found in zip(grid, queries, hits, strict=True):
        row[0].imshow(query, cmap="gray_r")
        row[0].set_title("query", fontsize=8)
        for axes, (item, _, value, interval, _) in zip(row[1:], found, strict=True):
            low, high = interval or (np.nan, np.nan)
            axes.imshow(images[item], cmap="gray_r")
            axes.set_title(f"{item}: {value:.2f}\n{low:.2f} .. {high:.2f}", fontsize=7)
        for axes in row:
            axes.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _pyplot() -> Any:
    mpl = optional("matplotlib", "The pictures of the demonstration")
    mpl.use("Agg")
    return import_module("matplotlib.pyplot")


def digits_store(folder: Path, say: Callable[[str], None] = print) -> NDArray[Any]:
    """Make the store of the demonstration in a folder, or take the one that an earlier run left; returns all images."""
    from bilsh.workflows import ingest

    folder.mkdir(parents=True, exist_ok=True)
    images = datasets.digits().X
    kept, asked = images[:-QUERIES], images[-QUERIES:]
    _save_once(folder / "digits.npy", kept)
    _save_once(folder / "query.npy", asked)
    say(f"encoding {len(kept):,} digits into {folder / 'store'} ...")
    settings = ingest.Settings(bits=STORE_BITS, keep_vectors="float32")
    ingest.encode(folder / "digits.npy", folder / "store", settings)
    return images


def tell(
    folder: Path, say: Callable[[str], None] = print, *, quick: bool = False, program: str = "bilsh"
) -> Story:
    """Tell the whole story, and leave data, store, pictures and report.html in a folder.

    Parameters
    ----------
    folder : path
        Made if it is not there; a store that an earlier run left in it is used again.
    say : callable
        Takes a line before each step.
    quick : bool
        Measure two lengths of code, once: seconds instead of most of a minute.
    program : str
        How the user calls the command line; the next steps are told with it.
    """
    images = digits_store(folder, say)
    kept, asked = images[:-QUERIES], images[-QUERIES:]
    source, query = folder / "digits.npy", folder / "query.npy"
    say(f"searching for {QUERIES} digits that are not in it ...")
    with bilsh.Store.open(folder / "store") as store:
        hits = store.search(asked, NEIGHBOURS)
    drawn = find_spec("matplotlib") is not None
    if drawn:
        neighbours(kept, asked, hits, folder / "neighbours.png")

    rows: list[Row] = []
    for n_bits in (PICTURE_BITS[0], TABLE_BITS) if quick else PICTURE_BITS:
        say(f"measuring every method with {n_bits:,} bits ...")
        rows += measure(images.astype(np.float64), n_bits, 1 if quick else REPETITIONS)
    if drawn:
        picture(rows, folder / "digits.png")
    shown = [row for row in rows if row.n_bits == TABLE_BITS]
    where = shlex.quote(str(folder / "store"))
    page = f"{program} view {where}"
    steps = [
        page,
        f"{program} search {where} --query {shlex.quote(str(query))} -k 5",
        f"{program} search {where} --id 17 --radius 200",
        f"{program} info {where}",
        f"{program} advise {shlex.quote(str(source))}",
        f"{program} encode YOUR_PHOTOS/ -o store/",
    ]
    (folder / "report.html").write_text(report(shown, steps, folder), encoding="utf-8")
    lines = [
        table(shown), "",
        f"picture: {folder / 'digits.png'}" if drawn else f"no pictures: {MORE}",
        f"report: {folder / 'report.html'}", "",
        "try next:", *(f"  {step}" for step in steps[1:]), "",
        "look at it in your browser:", f"  {page}",
    ]  # fmt: skip
    data = {
        "rows": [asdict(row) for row in rows],
        "report": str(folder / "report.html"),
        "store": str(folder / "store"),
    }
    return Story(data, lines)


def _save_once(path: Path, array: NDArray[Any]) -> None:
    # A file written anew would look changed to the store that was made from it.
    if not path.exists():
        with replace_file(path) as file:
            np.save(file, array, allow_pickle=False)


def report(rows: Sequence[Row], steps: Sequence[str], folder: Path) -> str:
    """Return the report as one HTML page, pictures inside."""

    def image(name: str) -> str:
        if not (folder / name).is_file():
            return f"<p>(No picture: {html.escape(MORE)})</p>"
        data = base64.b64encode((folder / name).read_bytes()).decode()
        return f'<img alt="{name}" src="data:image/png;base64,{data}">'

    cells = [
        (row.method, f"{row.n_bits:,}", f"{row.parameter_bytes:,}", f"{row.microseconds:.2f}",
         f"{row.precision:.3f}", f"{row.recall:.3f}")
        for row in rows
    ]  # fmt: skip
    header = ("method", "bits", "parameter bytes", "us per item", "mAP", f"recall@{RECALL_AT}")
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in cells)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    commands = html.escape("\n".join(steps))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>bilsh demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} tr {{ border-bottom: 1px solid #ddd }}
img {{ max-width: 100% }} pre {{ background: #f5f5f5; padding: 1rem; overflow-x: auto }}
</style>
<h1>Handwritten digits as binary codes</h1>
<p>1,797 images of 8 x 8. Each becomes a code; the number of differing bits of two codes tells how similar the
images are.</p>
<h2>Searching</h2>
<p>{QUERIES} digits that are not in the store, and the {NEIGHBOURS} items nearest to each by {STORE_BITS:,} bits. Above
an item: its id, its similarity to the query as the code tells it (1 is the same), and the 95 % interval.</p>
{image("neighbours.png")}
<h2>How good for how many bits</h2>
<p>The paper's protocol: true neighbours are closer than the mean distance to the 50th neighbour. Dashed: methods of
the paper; solid: ours.</p>
{image("digits.png")}
<table><tr>{head}</tr>
{body}
</table>
<h2>Try next</h2>
<pre>{commands}</pre>
</html>
"""
