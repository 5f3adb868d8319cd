"""How all pictures look, and the precision-recall panels that several figures share. Reads only tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
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
GRAY = "#8A8A8A"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, GRAY)

METHOD_STYLE: dict[str, dict[str, Any]] = {
    "single": {"color": BLACK, "linestyle": "-"},
    "bilinear m=1": {"color": BLUE, "linestyle": "-"},
    "bilinear m=2": {"color": SKY, "linestyle": "--"},
    "bilinear m=5": {"color": RED, "linestyle": "-"},
    "bilinear m=10": {"color": ORANGE, "linestyle": "--"},
}

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


def save(figure: Any, path: Path) -> list[Path]:
    """Save a figure as path.png and path.svg; the same figure gives the same bytes."""
    mpl = optional("matplotlib", "Drawing pictures")
    written = []
    with mpl.rc_context(STYLE):
        for suffix, settings in ((".png", {"dpi": 110}), (".svg", {"dpi": 130, "metadata": {"Date": None}})):
            content = io.BytesIO()
            figure.savefig(content, format=suffix[1:], **settings)
            if suffix == ".png":
                content = _fewer_colours(content)
            target = path.with_name(path.name + suffix)
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


def method_style(method: str, methods: Sequence[str]) -> dict[str, Any]:
    """Line style of a method: fixed for the paper's, by position for others."""
    if method in METHOD_STYLE:
        return METHOD_STYLE[method]
    return {"color": CYCLE[list(methods).index(method) % len(CYCLE)], "linestyle": "-"}


def precision_recall_panel(axes: Any, curves: Rows, title: str, *, legend: bool) -> None:
    """Draw one precision-recall panel: mean as a line, one standard deviation as a band."""
    methods = distinct(curves, "method")
    for method in methods:
        rows = select(curves, method=method)
        x, y, s = column(rows, "recall"), column(rows, "precision"), column(rows, "precision_std")
        style = method_style(method, methods)
        axes.plot(x, y, label=method, **style)
        low = [max(0.0, a - b) for a, b in zip(y, s, strict=True)]
        high = [min(1.0, a + b) for a, b in zip(y, s, strict=True)]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set(title=title, xlabel="recall", xlim=(0, 1), ylim=(0, 1.02))
    if legend:
        axes.legend(loc="lower left")
