"""How all pictures look, and the precision-recall panels that several figures share. Reads only tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bilsh.errors import optional
from bilsh.experiments.base import Rows, column, distinct, select
from bilsh.files import replace_file

# Okabe and Ito: distinguishable with any colour vision, and in gray by their line styles.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (
    "#222222",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GRAY, BROWN = "#8A8A8A", "#8C510A"

METHOD_STYLE: dict[str, dict[str, Any]] = {
    "sign of centred values": {"color": GRAY, "linestyle": "-"},
    "dense, zero thresholds": {"color": BLACK, "linestyle": ":"},
    "dense": {"color": BLACK, "linestyle": "-"},
    "LSH-SIK": {"color": BLACK, "linestyle": "-"},
    "LSH-angle": {"color": ORANGE, "linestyle": "-"},
    "bilinear angle": {"color": SKY, "linestyle": "-"},
    "bilinear m=10": {"color": ORANGE, "linestyle": "--"},
    "bilinear m=1": {"color": BLUE, "linestyle": "-"},
    "bilinear m=2": {"color": SKY, "linestyle": "--"},
    "bilinear m=5": {"color": RED, "linestyle": "-"},
    "BLSH-SIK, m = 1": {"color": BLUE, "linestyle": "-"},
    "BLSH-SIK, m = 5": {"color": RED, "linestyle": "-"},
    "scrambled, orthogonal, zero thresholds": {"color": GREEN, "linestyle": "-"},
    "scrambled, orthogonal": {"color": GREEN, "linestyle": ":"},
    "ours: kernel": {"color": GREEN, "linestyle": "-"},
    "ours: KernelEncoder": {"color": GREEN, "linestyle": "-"},
    "kernel": {"color": GREEN, "linestyle": "-"},
    "ours: Hadamard kernel": {"color": BROWN, "linestyle": "-"},
    "ours: learned": {"color": BLUE, "linestyle": "-"},
    "ours: sign": {"color": PURPLE, "linestyle": "-"},
    "ours: AngleEncoder": {"color": PURPLE, "linestyle": "-"},
    "sign, ": {"color": PURPLE, "linestyle": "-"},
    "sign": {"color": PURPLE, "linestyle": "-"},
}
"""One colour per method in all pictures, by how its name begins; whoever is not named here is gray."""

SPECTRUM_COLOUR = {"dense": BLACK, "rank 1": RED, "flat": GREEN}
"""Colours of exact curves by the kind of difference; the mean spectrum of data is orange."""


def method_style(method: str) -> dict[str, Any]:
    """Colour and line of a method; asymmetric queries are drawn dashed in the colour of their code.

    Examples
    --------
    >>> method_style("bilinear m=1, as in the paper")["color"] == BLUE
    True
    >>> method_style("ours: kernel, asymmetric")["linestyle"]
    '--'
    """
    known = (style for name, style in METHOD_STYLE.items() if method.startswith(name))
    style = next(known, {"color": GRAY, "linestyle": "-"})
    if "asymmetric" in method:
        return style | {"linestyle": "--"}
    return style | {"linestyle": "-."} if "balanced" in method else style


def spectrum_colours(names: Iterable[str]) -> dict[str, str]:
    """Colours of exact curves by name."""
    return {name: SPECTRUM_COLOUR.get(name, ORANGE) for name in names}


STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "bilsh",
}


def panels(rows: int, columns: int, *, width: float = 3.1, height: float = 2.9, **settings: Any) -> Any:
    """Make a figure with (rows, columns) axes; returns (figure, axes array)."""
    mpl = optional("matplotlib", "Drawing pictures")
    from matplotlib.figure import Figure

    mpl.rcParams.update(STYLE)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **settings)


FORMATS: dict[str, dict[str, Any]] = {"png": {"dpi": 110}, "svg": {"dpi": 130, "metadata": {"Date": None}}}


def save(figure: Any, path: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Save a figure as path.FORMAT for each format; the same figure gives the same bytes."""
    mpl = optional("matplotlib", "Drawing pictures")
    written = []
    with mpl.rc_context(STYLE):
        for name in formats:
            content = io.BytesIO()
            figure.savefig(content, format=name, **FORMATS[name])
            if name == "png":
                content = _fewer_colours(content)
            target = path.with_name(f"{path.name}.{name}")
            with replace_file(target) as file:
                file.write(content.getvalue())
            written.append(target)
    return written


def _fewer_colours(png: io.BytesIO) -> io.BytesIO:
    """Reduce a PNG picture to 128 colours, which line drawings do not miss: a third of the size."""
    from PIL import Image  # comes with matplotlib

    content = io.BytesIO()
    Image.open(png).convert("RGB").quantize(128).save(content, "png", optimize=True)
    return content


def line_with_error(panel: Any, rows: Rows, x: str, y: str, error: Sequence[float], label: str) -> None:
    """Draw a method's line with visible error bars, in its own style."""
    style, points = method_style(label), (column(rows, x), column(rows, y))
    panel.plot(*points, marker="o", markersize=4, label=label, **style)
    panel.errorbar(*points, error, linestyle="", capsize=3, color=style["color"], label="_")


def label_lines(panel: Any, *, gap: float = 0.045) -> None:
    """Write the name of every line at its right end, moved apart where ends are close; no legend is needed then.

    Parameters
    ----------
    panel : matplotlib axes
        With its limits set.
    gap : float
        Least distance of two names, as a share of the panel's height.
    """
    ends = [
        (panel.transAxes.inverted().transform(panel.transData.transform(line.get_xydata()[-1])), line)
        for line in panel.get_lines()
        if not line.get_label().startswith("_") and len(line.get_xydata())
    ]
    for column_of_ends in {round(float(x), 1): None for (x, _), _line in ends}:
        group = sorted(
            (end for end in ends if round(float(end[0][0]), 1) == column_of_ends),
            key=lambda end: float(end[0][1]),
        )
        places: list[float] = []
        for (_, y), _line in group:
            places.append(max(float(y), places[-1] + gap) if places else float(y))
        over = max(0.0, places[-1] - 1.0)
        for ((x, _y), line), place in zip(group, places, strict=True):
            panel.annotate(
                line.get_label(), (float(x), place - over), xycoords="axes fraction", xytext=(5, 0),
                textcoords="offset points", color=line.get_color(), va="center", fontsize=7.5, annotation_clip=False,
            )  # fmt: skip


def precision_recall_panel(axes: Any, curves: Rows, title: str, *, legend: bool) -> None:
    """Draw one precision-recall panel: mean as a line, one standard deviation as a band."""
    methods = distinct(curves, "method")
    for method in methods:
        rows = select(curves, method=method)
        x, y, s = column(rows, "recall"), column(rows, "precision"), column(rows, "precision_std")
        style = method_style(method)
        axes.plot(x, y, label=method, **style)
        low = [max(0.0, a - b) for a, b in zip(y, s, strict=True)]
        high = [min(1.0, a + b) for a, b in zip(y, s, strict=True)]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set(title=title, xlabel="recall", xlim=(0, 1), ylim=(0, 1.02))
    if legend:
        axes.legend(loc="lower left")
