"""Commands that look after stores: info, verify, compact, repair, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands, IdFile, StorePath
from bilsh.cli.progress import Progress
from bilsh.errors import DataNotFoundError, InvalidInputError


def info(store: StorePath) -> None:
    """Tell what a store holds and how it was made.

    \b
    Example:
      bilsh info store/ --json
    """
    from bilsh.cli.answers import describe_store

    show.result(*describe_store(store))


def verify(
    store: StorePath,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check sizes and headers only, not every byte.")
    ] = False,
) -> None:
    """Check that every byte of a store is as it was written; exit code 3 names what is damaged.

    \b
    Examples:
      bilsh verify store/
      bilsh verify store/ --quick
    """
    from bilsh.store.recipe import read_recipe
    from bilsh.workflows.queries import open_store

    with open_store(store) as opened:
        found = opened.verify(deep=not quick)
    read_recipe(store)
    what = "sizes and headers" if quick else "every byte"
    show.result(
        {"ok": True, "version": found.version, "files": found.files, "bytes": found.bytes, "quick": quick},
        [f"ok: version {found.version}, {found.files} files, {show.size(found.bytes)}, {what} checked"],
    )


def compact(store: StorePath) -> None:
    """Rewrite a store as one segment without deleted items.

    The version before stays on disk until the next change, so that `bilsh repair` can go back to it.

    \b
    Example:
      bilsh compact store/
    """
    from bilsh.workflows.queries import open_store

    with open_store(store, "a") as opened:
        before = sum(segment.ref.size for segment in opened.segments)
        opened.compact()
        after = sum(segment.ref.size for segment in opened.segments)
        data = {"items": len(opened), "bytes_before": before, "bytes_after": after, "version": opened.version}
    show.result(
        data,
        [f"{data['items']:,} items, {show.size(before)} -> {show.size(after)}, version {data['version']}"],
    )


def repair(
    store: StorePath,
    to_version: Annotated[
        int | None, typer.Option(help="Version to go back to; without it, list them.")
    ] = None,
) -> None:
    """Go back to an earlier version of a damaged store, after checking every byte of it.

    \b
    Examples:
      bilsh repair store/                  which versions there are, and which are whole
      bilsh repair store/ --to-version 7
    """
    from dataclasses import asdict

    from bilsh.cli.answers import when
    from bilsh.store import Store
    from bilsh.workflows.queries import check_place

    check_place(store)
    versions = Store.versions(store)
    if not versions:
        raise DataNotFoundError(f"{store} holds no version of a store. Check the path.")
    if to_version is not None:
        _check_kept(to_version, [v.version for v in versions])
        newest = Store.repair(store, to_version)
        show.result(
            {"version": newest, "from": to_version, "versions": []},
            [f"version {newest} has the content of version {to_version}"],
        )
        return
    rows = [
        (v.version, when(v.time), "?" if v.items is None else f"{v.items:,}", v.problem or "ok")
        for v in versions
    ]
    show.result(
        {"version": None, "from": None, "versions": [asdict(v) for v in versions]},
        show.table(("version", "made", "items", "state"), rows, left=("made", "state")),
    )


def _check_kept(version: int, kept: list[int]) -> None:
    if version not in kept:
        why = "is no longer kept" if 0 < version < max(kept) else "never was"
        raise InvalidInputError(f"version {version} {why}; there are {', '.join(map(str, kept))}.")


def export(
    store: StorePath,
    to: Annotated[Literal["faiss", "npy", "parquet", "fvecs"], typer.Option(help="Format.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Main file; default: <store>.<format>.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write all codes and ids (fvecs: the kept vectors) for other programs.

    Beside them are put the encoder, checksums and, for stores of images, what describes a photograph.

    \b
    Examples:
      bilsh export store/ --to faiss -o photos.faiss
      bilsh export store/ --to parquet --force
    """
    from bilsh.workflows.exchange import SUFFIX
    from bilsh.workflows.exports import export_codes
    from bilsh.workflows.queries import open_store

    target = output or store.resolve().with_suffix(SUFFIX[to])
    with open_store(store) as opened, Progress() as progress:
        done = export_codes(opened, target, to, overwrite=force, progress=progress)
    what = "vectors" if to == "fvecs" else f"codes of {done.bits:,} bits"
    show.result(
        {"items": done.items, "bits": done.bits, "skipped": done.skipped, "files": list(done.files)},
        [
            f"{done.items:,} {what} written",
            *(f"  {show.clean(name)}" for name in done.files),
        ],
    )


def import_(
    source: Annotated[Path, typer.Argument(help="Codes: .npy (uint8), .faiss binary index, or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STORE", help="New store, or one to add to.")
    ],
    encoder: Annotated[
        Path | None, typer.Option(help="Encoder file that made the codes; default: the one beside them.")
    ] = None,
    ids: IdFile = None,
) -> None:
    """Put ready codes into a store: what `bilsh export` wrote, or codes of a saved encoder; all of them, or none.

    Do not import .faiss files from strangers: FAISS trusts its files.

    \b
    Examples:
      bilsh import photos.faiss -o store/
      bilsh import codes.npy -o store/ --encoder my.encoder --ids ids.txt
    """
    from bilsh.workflows.imports import import_codes

    with Progress() as progress:
        done = import_codes(source, output, encoder=encoder, ids=ids, progress=progress)
    for message in done.notes:
        show.note(f"note: {message}")
    show.result(
        {"items": done.items, "bits": done.bits, "store": str(output), "checked": done.checked},
        [f"{done.items:,} codes of {done.bits:,} bits added to {show.clean(output)}"],
    )


COMMANDS: Commands = {
    "info": info,
    "verify": verify,
    "compact": compact,
    "repair": repair,
    "export": export,
    "import": import_,
}
