"""Commands that study data and methods: advise, datasets, demo, reproduce, bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bilsh.cli import show
from bilsh.cli.options import Debug, Jobs, Json, Key, Quiet


def advise(
    source: Annotated[Path, typer.Argument(help="Array file.")],
    error: Annotated[float, typer.Option(help="Wanted error of the fraction of differing bits.")] = 0.02,
    confidence: Annotated[float, typer.Option(help="That no pair is off by more.")] = 0.99,
    pairs: Annotated[float, typer.Option(help="Number of pairs this shall hold for.")] = 1e6,
    key: Key = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Look at the data: which encoder, how many bits, what it costs, which of the paper's assumptions hold.

    \b
    Examples:
      bilsh advise x.npy
      bilsh advise x.npy --error 0.05 --confidence 0.95 --pairs 1000
    """
    from dataclasses import asdict

    from bilsh.cli.answers import advice_lines
    from bilsh.workflows.advice import advise as look

    found = look(source, key=key, error=error, confidence=confidence, pairs=pairs, seed=seed)
    show.result(asdict(found), advice_lines(found, source))


def datasets(
    name: Annotated[Literal["digits", "mnist"] | None, typer.Argument(help="Which one to write.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it (.npy).")] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the data sets that bilsh knows by name, or write one as .npy to try things on.

    \b
    Examples:
      bilsh datasets
      bilsh datasets digits -o digits.npy
    """
    from bilsh.cli.answers import list_datasets, write_dataset

    data, lines = list_datasets() if name is None else write_dataset(name, output or Path(f"{name}.npy"))
    show.result(data, lines)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for report, picture and store.")
    ] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less: seconds, not most of a minute.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the five-minute story, offline: encode, store, search, recall against bits; writes report.html.

    \b
    Example:
      bilsh demo -o demo/
    """
    from bilsh.experiments.demo import tell

    told = tell(output, say=show.note, quick=quick)
    show.result(told.data, told.lines)


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Figures by name; `all` by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick/--full", help="Small sizes, or the paper's.")] = True,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables and report.")] = Path(
        "results"
    ),
    mnist: Annotated[Path | None, typer.Option(help="Folder with MNIST's files.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of photographs, for the Flickr figures.")
    ] = None,
    codebook: Annotated[Path | None, typer.Option(help="VLAD centres (.npy).")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for finished parts.")] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure everything anew.")] = False,
    jobs: Jobs = 1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments: tables, pictures and one HTML report.

    \b
    Examples:
      bilsh reproduce --quick
      bilsh reproduce mnist --full -o results/
    """
    from bilsh.cli.answers import run_reproduction

    size = "quick" if quick else "full"
    answer, lines = run_reproduction(
        figures or ["all"], size, output,
        mnist=mnist, images=images, codebook=codebook, cache=cache, refresh=refresh, jobs=jobs,
    )  # fmt: skip
    show.result(answer, lines)
    if answer["failures"]:
        raise typer.Exit(1)


def bench(context: typer.Context) -> None:
    """Compare with what one would use instead, side by side on this machine (`bilsh bench --help`).

    \b
    Example:
      bilsh bench --quick
    """
    from bilsh.cli.answers import run_benchmark

    raise typer.Exit(run_benchmark(context.args))


def register(app: typer.Typer) -> None:
    """Add the commands of this module, in the order in which help lists them."""
    app.command()(advise)
    app.command()(datasets)
    app.command()(demo)
    app.command()(reproduce)
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(bench)
