"""Bilinear random Fourier features against the bounds of Lemma 1: the paper's Figure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh import theory
from bilsh.experiments import plots
from bilsh.experiments.base import (
    Done,
    Experiment,
    Finding,
    Part,
    Rows,
    Tables,
    all_rows,
    column,
    distinct,
    select,
    verdict,
)
from bilsh.experiments.inputs import Inputs

_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of matrices, pairs per size, draws per pair, and real data to hold the assumptions against."""

    data: str = "mnist"
    sides: tuple[int, ...] = (4, 8, 15, 25)
    n_pairs: int = 300
    n_draws: int = 10_000
    norm: float = 0.8
    seed: int = 0


def draw_pairs(config: Config, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of matrices with uniform entries, scaled to the norm; Y is made from X.

    The paper does not say how its pairs cover all kernel values. Here Y is X turned towards an independent uniform
    matrix by an angle between 0 and pi, so that distances go from 0 to twice the norm.
    """
    rng = np.random.default_rng([config.seed, side])
    X, Z = rng.uniform(-1, 1, (2, config.n_pairs, side, side))
    turn = np.linspace(0, np.pi, config.n_pairs + 1)[1:, None, None]
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True)
    Y = np.cos(turn) * X + np.sin(turn) * Z / np.linalg.norm(Z, axis=(1, 2), keepdims=True)
    Y /= np.linalg.norm(Y, axis=(1, 2), keepdims=True)
    return config.norm * X, config.norm * Y


def measure(config: Config, part: Part, inputs: Inputs, done: Done) -> Rows:
    """Estimate the kernels of all pairs of one size, each pair from its own draws (w, v, b) of eq. 9."""
    if part == ("data",):
        return _real_pairs(config, inputs)
    side = int(part[0])
    X, Y = draw_pairs(config, side)
    rng = np.random.default_rng([config.seed, side, 1])
    spectrum = theory.spectrum_of(X, Y)
    gaussian = theory.gaussian_kernel(np.sqrt(spectrum.sum(axis=1)))
    lower, upper = theory.lemma1_bounds(gaussian)
    norms = theory.norm_assumption(X / (1 + _SLACK)) & theory.norm_assumption(Y / (1 + _SLACK))
    rows = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        W, V = rng.standard_normal((2, config.n_draws, side))
        b = rng.uniform(0, 2 * np.pi, config.n_draws)
        bilinear = 2 * np.prod([np.cos(np.einsum("kq,kq->k", W @ z, V) + b) for z in (x, y)], axis=0)
        rows.append(
            {
                "side": side,
                "gaussian_kernel": float(gaussian[i]),
                "bilinear_rff": float(bilinear.mean()),
                "standard_error": float(bilinear.std(ddof=1) / np.sqrt(config.n_draws)),
                "exact_bilinear_kernel": float(theory.bilinear_kernel(spectrum[i])),
                "lower_bound": float(lower[i]),
                "upper_bound": float(upper[i]),
                "norms_assumed": bool(norms[i]),
                "ratio_assumed": bool(theory.ratio_assumption(spectrum[i])),
            }
        )
    return rows


def _real_pairs(config: Config, inputs: Inputs) -> Rows:
    """How often the assumption on eigenvalues holds for random pairs of real matrices."""
    X = inputs.data(config.data).X
    first, second = np.random.default_rng(config.seed).choice(len(X), (2, 1000))
    spectrum = theory.spectrum_of(X[first].astype(np.float64), X[second].astype(np.float64))
    spectrum = spectrum[spectrum.sum(axis=1) > 0]
    return [
        {
            "pairs_of": f"{config.data}, {X.shape[1]} x {X.shape[2]}",
            "pairs": len(spectrum),
            "ratio_assumed": int(theory.ratio_assumption(spectrum).sum()),
        }
    ]


def combine(config: Config, done: Done) -> Tables:
    """All pairs, and their counts by size; real data have a row of counts, too."""
    pairs = all_rows({part: rows for part, rows in done.items() if part != ("data",)})
    summary: Rows = []
    for side in distinct(pairs, "side"):
        rows = select(pairs, side=side)
        z = [(r["bilinear_rff"] - r["exact_bilinear_kernel"]) / r["standard_error"] for r in rows]
        summary.append(
            {
                "pairs_of": f"uniform, {side} x {side}",
                "pairs": len(rows),
                "ratio_assumed": sum(r["ratio_assumed"] for r in rows),
                "assumed": sum(r["norms_assumed"] and r["ratio_assumed"] for r in rows),
                "below_lower": sum(r["exact_bilinear_kernel"] < r["lower_bound"] - _SLACK for r in rows),
                "above_upper": sum(r["exact_bilinear_kernel"] > r["upper_bound"] + _SLACK for r in rows),
                "mean_error": float(
                    np.mean([abs(r["bilinear_rff"] - r["exact_bilinear_kernel"]) for r in rows])
                ),
                "squared_z": float(np.mean(np.square(z))),
            }
        )
    return {"summary": summary + list(done[("data",)]), "pairs": pairs}


def plot(tables: Tables) -> Any:
    """Kernel estimates against the Gaussian kernel, above; the same with the Gaussian kernel subtracted, below."""
    sides = distinct(tables["pairs"], "side")
    figure, axes = plots.panels(2, len(sides), sharex=True, sharey="row")
    for i, side in enumerate(sides):
        rows = sorted(select(tables["pairs"], side=side), key=lambda row: row["gaussian_kernel"])
        x = np.array(column(rows, "gaussian_kernel"))
        for panel, base in ((axes[0, i], np.zeros_like(x)), (axes[1, i], x)):
            assumed = np.array(column(rows, "norms_assumed")) & np.array(column(rows, "ratio_assumed"))
            estimate = np.array(column(rows, "bilinear_rff")) - base
            exact = np.array(column(rows, "exact_bilinear_kernel")) - base
            panel.scatter(
                x,
                estimate,
                s=9,
                color=plots.PURPLE,
                alpha=0.6,
                linewidth=0,
                rasterized=True,
                label="bilinear RFF, mean of draws",
            )
            panel.plot(
                x,
                np.array(column(rows, "upper_bound")) - base,
                color=plots.BLACK,
                linestyle="--",
                label=r"upper bound $\kappa_g^{0.79}$",
            )
            panel.plot(
                x,
                np.array(column(rows, "lower_bound")) - base,
                color=plots.BLUE,
                label=r"lower bound $\kappa_g$",
            )
            for mask, colour, label in (
                (assumed, plots.GREEN, r"exact $\kappa_b$, assumptions hold"),
                (~assumed, plots.ORANGE, r"exact $\kappa_b$, assumptions fail"),
            ):
                panel.plot(
                    x[mask],
                    exact[mask],
                    linestyle="",
                    marker=".",
                    markersize=3,
                    color=colour,
                    label=label,
                    rasterized=True,
                )
        over = sum(row["exact_bilinear_kernel"] > row["upper_bound"] + _SLACK for row in rows)
        axes[0, i].set(title=f"{side} x {side}: {over} of {len(rows)} exceed the bound")
        axes[1, i].set(xlabel=r"Gaussian kernel $\kappa_g$")
    axes[0, 0].set(ylabel="kernel")
    axes[1, 0].set(ylabel=r"kernel $-\ \kappa_g$")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, markerscale=2.5)
    return figure


def findings(tables: Tables) -> list[Finding]:
    """Compare the sketch of Figure 2 with exact values."""
    uniform = [row for row in tables["summary"] if row["pairs_of"].startswith("uniform")]
    real = [row for row in tables["summary"] if not row["pairs_of"].startswith("uniform")]
    large = [row for row in uniform if int(row["pairs_of"].split()[-1]) >= 15]
    total = sum(column(uniform, "pairs"))
    # A mean of n squared standard normal numbers has variance 2 / n.
    z = [(r["squared_z"] - 1) / (2 / r["pairs"]) ** 0.5 for r in uniform]

    def counts(rows: Rows, name: str) -> str:
        return "; ".join(f"{r['pairs_of']}: {r[name]} of {r['pairs']}" for r in rows)

    return [
        Finding(
            "The bilinear kernel is never below the Gaussian kernel (Lemma 1, lower bound).",
            f"The exact kernel is below it for {sum(column(uniform, 'below_lower'))} of {total} pairs.",
            verdict([r["below_lower"] == 0 for r in uniform]),
        ),
        Finding(
            "The upper bound is satisfied for large matrices (Figure 2 c, d).",
            f"Pairs whose exact kernel exceeds the bound: {counts(uniform, 'above_upper')}.",
            verdict([r["above_upper"] == 0 for r in large]),
        ),
        Finding(
            "The assumption on the largest eigenvalue “can be easily satisfied for large d_w”.",
            f"Pairs that satisfy it: {counts([*uniform, *real], 'ratio_assumed')}. It needs rank 5 at least, so 4 x 4 "
            "can never satisfy it.",
            verdict([r["ratio_assumed"] > 0.5 * r["pairs"] for r in (*large, *real)]),
        ),
        Finding(
            "Mean products of bilinear random Fourier features estimate the exact bilinear kernel (eq. 10).",
            "Mean absolute errors "
            + ", ".join(f"{r['mean_error']:.4f}" for r in uniform)
            + "; mean squared errors in units of the sampling variance "
            + ", ".join(f"{r['squared_z']:.2f}" for r in uniform)
            + " (1 is expected).",
            verdict([abs(value) < 4.5 for value in z]),
        ),
    ]


EXPERIMENT = Experiment(
    name="rff",
    title="Bilinear random Fourier features and their bounds",
    about="Figure 2 of the paper. Pairs of matrices with uniform entries and Frobenius norm 0.8; Y is X turned towards "
    "an independent matrix, so that all kernel values occur. Pale dots: the mean over draws of bilinear features, each "
    "pair with its own draws, between the bounds of Lemma 1. Dots on the curve are the exact kernel, which needs no "
    "draws; their colour says whether the assumptions of the lemma hold for the pair.",
    errata=(
        "The sample average in the text of Figure 2 lacks its factor 1/k.",
        "The upper bound of Lemma 1 needs the norm of Y to be at most 0.8 as well.",
        "lambda_1 <= 0.28 (lambda_2 + ...) needs rank 5 at least, so Figure 2 (a), 4 x 4, lies outside the lemma.",
    ),
    configs={"quick": Config(data="digits", n_pairs=80), "full": Config()},
    data=lambda config: (config.data,),
    parts=lambda config: [*((side,) for side in config.sides), ("data",)],
    measure=measure,
    combine=combine,
    plot=plot,
    findings=findings,
    kept=("summary",),
    revision=2,
)
