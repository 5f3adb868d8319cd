"""Commands about many items at once: index, duplicates, graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands, Jobs, StorePath
from bilsh.cli.progress import Progress

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .npz or .parquet.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def index(
    store: StorePath,
    cells: Annotated[
        int | None, typer.Option(min=1, help="Number of cells; by default 4 times the root of the items.")
    ] = None,
    jobs: Jobs = 1,
) -> None:
    """Put the items of a store into cells, for search --recall.

    A search then reads only cells near the query.
    All or nothing: interrupted, it leaves the store as it was. Fewer than 10,000 items are read as a whole as quickly
    and get no cells unless their number is given.

    \b
    Examples:
      bilsh index store/
      bilsh search store/ --query q.npy --recall 0.95
    """
    from bilsh.workflows.queries import open_store

    with open_store(store, "a") as opened, Progress() as progress:
        made = opened.build_cells("auto" if cells is None else cells, n_jobs=jobs, progress=progress)
        data = {"cells": made, "items": len(opened), "version": opened.version}
    lines = [f"{show.items(data['items'])} in {made:,} cells, version {data['version']}"]
    if not made:
        lines = [
            f"{show.items(data['items'])}: too few for cells, they are read as a whole as quickly; nothing was changed"
        ]
    show.result(data, lines)


def graph(
    store: StorePath,
    output: Output,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours per item.")] = 10,
    recall: Annotated[
        float, typer.Option(help="Share of the neighbours to find: 1 is exact, less is quicker with cells.")
    ] = 1.0,
    force: Force = False,
    jobs: Jobs = 1,
) -> None:
    """Write the nearest neighbours of every item by their codes.

    The arrays are ids, neighbors and distances.
    Works piece by piece: a run that was cut off goes on when the same command is run again.

    \b
    Examples:
      bilsh graph store/ -k 10 -o graph.npz
      bilsh graph store/ -k 10 --recall 0.95 -o graph.parquet
    """
    from bilsh.workflows import joins
    from bilsh.workflows.queries import open_store

    with open_store(store) as opened, Progress() as progress:
        done = joins.graph(opened, output, k=k, recall=recall, overwrite=force, jobs=jobs, progress=progress)
    for message in done.notes:
        show.note(f"note: {message}")
    show.result(
        {"items": done.rows, "k": k, "recall": recall, "resumed_at": done.resumed_at, "files": [str(output)]},
        [f"neighbours of {show.items(done.rows)} written to {show.clean(output)}"],
    )


def duplicates(
    store: StorePath,
    output: Output,
    within: Annotated[int | None, typer.Option(min=0, help="Most differing bits of a pair.")] = None,
    similarity: Annotated[
        float | None, typer.Option(help="Instead: least similarity of a pair, as far as codes can tell.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="With which a pair is at least so similar.")] = 0.95,
    force: Force = False,
    jobs: Jobs = 1,
) -> None:
    """Write all pairs of items whose codes differ in few bits.

    The arrays are a, b and distances. Exact, and quicker with cells.
    Works piece by piece: a run that was cut off goes on when the same command is run again.

    \b
    Examples:
      bilsh duplicates store/ --within 40 -o pairs.npz
      bilsh duplicates store/ --similarity 0.95 -o pairs.parquet
    """
    if (within is None) == (similarity is None):
        raise typer.BadParameter("give either --within BITS or --similarity VALUE.")
    from bilsh.workflows import joins
    from bilsh.workflows.queries import open_store

    with open_store(store) as opened, Progress() as progress:
        done = joins.duplicates(
            opened, output, radius=within, similarity=similarity, confidence=confidence, overwrite=force, jobs=jobs,
            progress=progress,
        )  # fmt: skip
    show.result(
        {"pairs": done.rows, "within": done.radius, "resumed_at": done.resumed_at, "files": [str(output)]},
        [f"{done.rows:,} pairs within {done.radius} bits written to {show.clean(output)}"],
    )


COMMANDS: Commands = {"index": index, "graph": graph, "duplicates": duplicates}
