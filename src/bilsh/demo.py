"""The demonstration behind `make demo`: handwritten digits, the paper's methods and ours, side by side.

Offline and small: 1,797 images of 8 x 8 that ship with scikit-learn. Prints a table and saves a picture.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh import evaluation

TABLE_BITS = 256
PICTURE_BITS = (32, 64, 128, 256, 512, 1024)
REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One encoder's line of the table."""

    method: str
    paper: bool
    n_bits: int
    parameter_bytes: int
    microseconds: float
    precision: float


def methods(n_bits: int, bandwidth: float, seed: int) -> Iterator[tuple[str, bool, Any]]:
    """Yield (name, whether the paper has it, encoder) of everything the demonstration compares."""
    k, b, s = n_bits, bandwidth, seed
    yield "LSH-angle", True, bilsh.lsh_angle(k, random_state=s)
    yield "bilinear angle", True, bilsh.bilinear_angle(k, random_state=s)
    yield "LSH-SIK (single)", True, bilsh.lsh_sik(k, bandwidth=b, random_state=s)
    yield "BLSH-SIK, m = 1", True, bilsh.blsh_sik(k, bandwidth=b, random_state=s)
    yield "BLSH-SIK, m = 5", True, bilsh.blsh_sik(k, oversampling=5, bandwidth=b, random_state=s)
    yield "circulant SIK", True, bilsh.circulant_sik(k, bandwidth=b, random_state=s)
    yield "ours: KernelEncoder", False, bilsh.KernelEncoder(k, bandwidth=b, random_state=s)
    hadamard = bilsh.KernelEncoder(k, bandwidth=b, projection="hadamard", random_state=s)
    yield "ours: Hadamard kernel", False, hadamard
    yield "ours: AngleEncoder", False, bilsh.AngleEncoder(k, random_state=s)


def measure(images: NDArray[np.float64], n_bits: int) -> list[Row]:
    """Fit, encode and evaluate every method by the paper's protocol; mean over repetitions."""
    found: dict[str, list[Row]] = {}
    for seed in range(REPETITIONS):
        truth = evaluation.ground_truth(images, n_queries=100, rng=seed)
        for name, paper, encoder in methods(n_bits, truth.threshold, seed):
            codes = encoder.fit(images).transform(images)
            best = min(_seconds(encoder, images) for _ in range(3))
            ranking = evaluation.rank_codes(codes[truth.queries], codes[truth.database], truth.neighbors)
            precision = evaluation.mean_average_precision(ranking)
            row = Row(name, paper, n_bits, encoder.parameter_bytes_, 1e6 * best / len(images), precision)
            found.setdefault(name, []).append(row)
    return [
        Row(
            name,
            rows[0].paper,
            n_bits,
            rows[0].parameter_bytes,
            min(row.microseconds for row in rows),
            float(np.mean([row.precision for row in rows])),
        )
        for name, rows in found.items()
    ]


def _seconds(encoder: Any, images: NDArray[np.float64]) -> float:
    start = time.perf_counter()
    encoder.transform(images)
    return time.perf_counter() - start


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    lines = [f"{'method':<24}{'bits':>6}{'parameters':>13}{'time/item':>12}{'mAP':>8}"]
    for row in rows:
        parameters, microseconds = f"{row.parameter_bytes:,} B", f"{row.microseconds:.2f} us"
        lines.append(
            f"{row.method:<24}{row.n_bits:>6}{parameters:>13}{microseconds:>12}{row.precision:>8.3f}"
        )
    return "\n".join(lines)


def picture(rows: Sequence[Row], path: Path) -> None:
    """Save mean average precision against bits: the paper's methods dashed, ours solid."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise SystemExit("The picture needs matplotlib: pip install 'bilsh[plot]'.") from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for name in dict.fromkeys(row.method for row in rows):
        line = [row for row in rows if row.method == name]
        axes.plot(
            [row.n_bits for row in line],
            [row.precision for row in line],
            marker="o",
            markersize=4,
            linestyle="--" if line[0].paper else "-",
            linewidth=1.2 if line[0].paper else 2.2,
            label=name,
        )
    axes.set(
        xscale="log", xlabel="bits", ylabel="mean average precision", title="Digits, 8 x 8, paper's protocol"
    )
    axes.set_xticks(PICTURE_BITS, [f"{n_bits:,}" for n_bits in PICTURE_BITS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(
        prog="python -m bilsh.demo", description="Digits, the paper's codes and ours."
    )
    parser.add_argument(
        "--picture", type=Path, default=Path("demo/digits.png"), help="where to save the picture"
    )
    picture_path = parser.parse_args(arguments).picture
    from sklearn.datasets import load_digits

    images = load_digits().images
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bilsh.EncoderAdvice)
        for n_bits in PICTURE_BITS:
            print(f"encoding {len(images):,} digits with {n_bits} bits ...", file=sys.stderr, flush=True)
            rows += measure(images, n_bits)
    print(table([row for row in rows if row.n_bits == TABLE_BITS]))
    picture(rows, picture_path)
    print(f"\npicture: {picture_path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
