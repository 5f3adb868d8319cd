"""Commands beyond one store: copy, plan."""

from __future__ import annotations

from typing import Annotated

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands
from bilsh.cli.progress import Progress


def copy(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Directory of a store, or an engine's address.")
    ],
    destination: Annotated[str, typer.Argument(metavar="DST", help="Where to: the same kinds of addresses.")],
    batch: Annotated[
        int | None, typer.Option(min=1, help="Items per write; default: by their length.")
    ] = None,
) -> None:
    """Copy a store into another engine, or from one to another.

    Codes, ids, metadata and the encoder go along, and both are compared at the end.
    A copy that was cut off goes on when the same command is run again. Addresses: a directory (a store),
    faiss:file, lance:dir, postgresql://user@host/database?table=codes (also schema=, extension=vector or none),
    milvus://host:19530/name. `bilsh info`, `search`, `delete` and `verify` take them too.

    \b
    Examples:
      bilsh copy store/ 'postgresql://me@db.example/photos?table=codes'
      bilsh copy store/ milvus://localhost:19530/photos
      bilsh copy faiss:photos.faiss store/
    """
    from dataclasses import asdict

    from bilsh.workflows import copying

    with Progress() as progress:
        done = copying.copy(source, destination, batch=batch, progress=progress)
    for message in done.notes:
        show.note(f"note: {message}")
    went_on = " (went on with a copy that was cut off)" if done.resumed else ""
    show.result(
        asdict(done),
        [
            f"{show.items(done.items)} of {done.bits:,} bits in {show.clean(done.destination)}, "
            f"{done.written:,} written now{went_on}",
            f"both sides read and equal: {done.sha256}",
        ],
    )


def plan(
    items: Annotated[float, typer.Option(min=1, help="How many, e.g. 1e9.")],
    bits: Annotated[int, typer.Option(min=8, help="Length of a code.")] = 4096,
    recall: Annotated[
        float, typer.Option(min=0.01, max=1, help="Recall that answers may be limited to.")
    ] = 0.95,
    dimension: Annotated[
        int, typer.Option(min=1, help="Numbers in an item, for the time of encoding.")
    ] = 1024,
    memory: Annotated[
        float | None, typer.Option(min=0.01, help="GiB of a machine for codes; default: 3/4 of this one's.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Of a machine; default: this one's.")] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="Measure this server too: the address of a collection that does not exist yet."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure again, though rates are known.")
    ] = False,
) -> None:
    """Tell what it takes to keep and search so many codes.

    Memory, disk, machines and times, for every engine.
    Rates are measured on this machine the first time (about a minute), and kept; the assumptions are printed.

    \b
    Examples:
      bilsh plan --items 1e9 --bits 4096 --recall .95
      bilsh plan --items 1e8 --bits 1024 --engine 'postgresql://me@db/photos'
    """
    import tempfile
    from dataclasses import asdict

    from bilsh.workflows import disturbance, planning, sampling

    rates = [] if measure or engine else planning.saved_rates(bits)
    if not rates:
        folder = tempfile.gettempdir()
        places = [f"store:{folder}", f"faiss:{folder}", f"lance:{folder}", *(engine or [])]
        watch = disturbance.Watch()
        with Progress() as progress:
            rates, notes = planning.measure_all(places, bits, recall, progress)
        if (others := watch.others() or 0.0) > disturbance.TOO_MUCH and not engine:
            show.note(
                f"others had {others:.0%} of the processors meanwhile: times may be too long. Measure again "
                "(--measure) when the machine has nothing else to do."
            )
        for message in notes:
            show.note(f"not measured: {message}")
        show.note(f"rates kept in {planning.save_rates(rates)}")
    made = planning.plan(
        int(items), rates, sampling.encode_rate(bits, dimension), recall=recall, cores=cores, dimension=dimension,
        machine_bytes=None if memory is None else memory * 2**30,
    )  # fmt: skip
    rows = [
        (
            need.engine, show.size(int(need.memory)), "?" if need.disk is None else show.size(int(need.disk)),
            f"{need.machines:,}", show.seconds(need.load_seconds), show.seconds(need.query_seconds),
            *(
                "" if seconds is None else show.seconds(seconds)
                for seconds in (need.progressive_seconds, need.build_seconds, need.recall_seconds)
            ),
        )
        for need in made.needs
    ]  # fmt: skip
    header = (
        "engine",
        "memory",
        "disk",
        "machines",
        "load",
        "exact query",
        "by prefixes",
        "cells",
        f"recall {recall:g}",
    )
    lines = [
        f"{made.items:,} items, codes of {made.bits:,} bits; encoding takes {show.seconds(made.encode_seconds)}",
        *show.table(header, rows, left=("engine",)),
        "assumed:",
        *(f"  {line}" for line in made.assumptions),
    ]
    show.result(asdict(made), lines)


COMMANDS: Commands = {"copy": copy, "plan": plan}
