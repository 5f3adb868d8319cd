"""Commands that study data and methods: advise, datasets, demo, reproduce, bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands, IdColumn, Jobs, Key
from bilsh.cli.progress import Progress


def advise(
    source: Annotated[Path, typer.Argument(help="Array file, or folder of images.")],
    recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Wanted share of the 10 nearest neighbours.")
    ] = 0.9,
    keep_vectors: Annotated[
        bool, typer.Option("--keep-vectors", help="The store will keep the vectors, searches re-rank.")
    ] = False,
    describe: Annotated[str | None, typer.Option(help="Descriptor of images; chosen if not given.")] = None,
    error: Annotated[float, typer.Option(help="Of the bound for all pairs: of the fraction of bits.")] = 0.02,
    confidence: Annotated[float, typer.Option(help="That no pair is off by more.")] = 0.99,
    pairs: Annotated[float, typer.Option(help="Number of pairs that it shall hold for.")] = 1e6,
    key: Key = None,
    id_column: IdColumn = None,
    seed: Annotated[int, typer.Option(min=0, help="Of samples and encoders.")] = 0,
    jobs: Jobs = 1,
) -> None:
    """Measure on a sample which codes find enough, at what cost.

    \b
    Examples:
      bilsh advise x.npy
      bilsh advise x.npy --recall 0.95 --keep-vectors
      bilsh advise photos/
    """
    from bilsh.workflows.advice import advise as look

    with Progress() as progress:
        found = look(
            source, key=key, id_column=id_column, recall=recall, keep_vectors=keep_vectors, describe=describe,
            error=error, confidence=confidence, pairs=pairs, seed=seed, jobs=jobs, progress=progress,
        )  # fmt: skip
    more = [("--key", key), ("--id-column", id_column), ("--seed", seed or None)]
    options = "".join(f" {option} {show.shell(value)}" for option, value in more if value is not None)
    show.result(found.to_json(), found.lines(source, options))


def datasets(
    name: Annotated[Literal["digits", "mnist"] | None, typer.Argument(help="Which one to write.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it (.npy).")] = None,
) -> None:
    """List data sets to try things on, or write one as .npy.

    \b
    Examples:
      bilsh datasets
      bilsh datasets digits -o digits.npy
    """
    from bilsh.cli.answers import list_datasets, write_dataset

    show.result(*(list_datasets() if name is None else write_dataset(name, output or Path(f"{name}.npy"))))


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for report, picture and store.")
    ] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less: seconds, not most of a minute.")
    ] = False,
    view: Annotated[bool, typer.Option("--view", help="Look at the store in the browser at once.")] = False,
) -> None:
    """Tell the five-minute story, offline; writes report.html.

    Handwritten digits are encoded, stored and searched, and the methods compared: recall against bits.

    \b
    Examples:
      bilsh demo -o demo/
      bilsh demo --view
    """
    from bilsh.experiments.demo import digits_store, tell

    with Progress() as progress:
        if view:
            digits_store(output, say=progress.say)
        else:
            story = tell(output, say=progress.say, quick=quick, program=show.program())
    if not view:
        show.result(story.data, story.lines)
        return
    from bilsh.viewer.serve import serve

    serve(output / "store", say=show.line)
    show.result({"rows": [], "report": None, "store": str(output / "store")})


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
) -> None:
    """Run the paper's experiments: tables, pictures, one report.

    \b
    Examples:
      bilsh reproduce --quick
      bilsh reproduce mnist --full -o results/
    """
    from bilsh.experiments import reproduce as run

    names = figures or ["all"]
    size: Literal["quick", "full"] = "quick" if quick else "full"
    with Progress() as progress:
        done = run(
            names, size, output,
            mnist=mnist, images=images, codebook=codebook, cache=cache, refresh=refresh, jobs=jobs,
            progress=progress.say,
        )  # fmt: skip
    show.result(
        {
            "figures": names,
            "size": size,
            "report": str(done.report),
            "files": [str(file) for file in done.files],
            "failures": done.failures,
        },
        [
            *(f"{name} could not be made: {show.clean(why)}" for name, why in done.failures.items()),
            f"report: {show.clean(done.report)}",
        ],
    )
    if done.failures:
        raise typer.Exit(1)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="About three minutes.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds; checks the program, measures nothing.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this part (encode, ways, hamming, memory, scaling, progressive, store, cells, "
            "cells-growth, cells-store, page); may be repeated."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results and plots.")] = Path(
        "bilsh-bench"
    ),
    tables: Annotated[
        Path | None, typer.Option(help="Also write the tables as Markdown to this file.")
    ] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Time the processor, one thread: for busy machines.")
    ] = False,
    goals: Annotated[
        bool,
        typer.Option(
            "--goals", help="What must hold on any processor: a line of JSON per ratio; three minutes."
        ),
    ] = False,
    machine: Annotated[
        bool, typer.Option("--machine", help="Tell what this runs on and how; measure nothing.")
    ] = False,
) -> None:
    """Compare with what one would use instead, on this machine.

    All run side by side; a quarter of an hour by default.

    \b
    Examples:
      bilsh bench --quick
      bilsh bench --quick --only hamming
      bilsh bench --goals
    """
    if quick and smoke:
        raise typer.BadParameter("give --quick or --smoke, not both.")
    if machine:
        from bilsh.benchmark.machine import told

        here = told()
        show.result(here, [f"{name}: {value}" for name, value in here.items()])
        return
    if goals:
        from bilsh.benchmark.goals import Scale, hold

        scale = Scale(small=100, seconds=0.01) if smoke else None
        file = hold(output, only=tuple(only or ()), scale=scale, say=show.line)
        show.result({"size": "goals", "output": str(output), "files": [str(file)]})
        return
    from bilsh.benchmark import benchmark

    size = "smoke" if smoke else "quick" if quick else "full"
    files = benchmark(size, output, only=only or (), tables=tables, cpu=cpu, say=show.line)
    show.result({"size": size, "output": str(output), "files": [str(file) for file in files]})


COMMANDS: Commands = {
    "advise": advise,
    "datasets": datasets,
    "demo": demo,
    "reproduce": reproduce,
    "bench": bench,
}
