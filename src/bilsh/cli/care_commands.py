"""Commands that look after stores: info, verify, compact, backup, repair, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands, IdFile, Place, StorePath
from bilsh.cli.progress import Progress
from bilsh.cli.words import for_users
from bilsh.errors import DataNotFoundError

MEANINGS = {"unknown": None, "sign": "sign", "rotation": "sign of a rotation"}


def info(store: Place) -> None:
    """Tell what a store holds and how it was made.

    \b
    Example:
      bilsh info store/ --json
    """
    from bilsh.cli.answers import describe_place

    show.result(*describe_place(store))


def verify(
    store: Place,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check sizes and headers only, not every byte.")
    ] = False,
) -> None:
    """Check that every byte of a store is as it was written.

    Damage is named, and is exit code 3.

    In an engine, which has its own checksums, every item is read once and counted.

    \b
    Examples:
      bilsh verify store/
      bilsh verify store/ --quick
    """
    from bilsh.engines import Address, Collection
    from bilsh.store.recipe import read_recipe
    from bilsh.workflows.copying import digest
    from bilsh.workflows.queries import open_place

    with open_place(store) as opened:
        if isinstance(opened, Collection):
            with Progress() as progress:
                read = digest(opened, progress, "reading")
            show.result(
                {
                    "ok": True,
                    "version": None,
                    "files": None,
                    "bytes": None,
                    "quick": False,
                    "sha256": read.sha256,
                },
                [
                    f"ok: {show.items(read.items)} read, as many as {opened.capabilities.engine} says; {read.sha256}"
                ],
            )
            return
        found = opened.verify(deep=not quick)
    read_recipe(Path(Address.of(store).rest))
    what = "sizes and headers" if quick else "every byte"
    show.result(
        {
            "ok": True,
            "version": found.version,
            "files": found.files,
            "bytes": found.bytes,
            "quick": quick,
            "sha256": None,
        },
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


def backup(
    store: StorePath,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="COPY", help="New directory, or that of an earlier backup."),
    ],
    link: Annotated[
        bool,
        typer.Option("--link", help="Hard-link files instead of copying them: quick, but damage is shared."),
    ] = False,
) -> None:
    """Copy a store while others write to it.

    Every copied byte is checked; what an earlier backup has is not copied again.

    \b
    Examples:
      bilsh backup store/ -o /mnt/backup/store
    """
    from dataclasses import asdict

    from bilsh.workflows.queries import open_store

    with open_store(store) as opened:
        done = opened.backup(output, link=link)
    show.result(
        asdict(done),
        [
            f"version {done.version}, {show.items(done.items)} in {show.clean(output)}: "
            f"{done.files_copied} files, {show.size(done.bytes_copied)} copied"
        ],
    )


def repair(
    store: StorePath,
    to_version: Annotated[int | None, typer.Option(help="Version to go back to.")] = None,
    drop_damaged: Annotated[
        bool, typer.Option("--drop-damaged", help="Keep every item that is whole, list the others.")
    ] = False,
    salvage: Annotated[
        Path | None, typer.Option(metavar="NEW", help="Make a new store of the segments that are whole.")
    ] = None,
) -> None:
    """Bring a damaged store back to life.

    Without options every byte is read, to tell which versions there are and which of them are whole.

    --to-version goes back to an earlier version, after checking every byte of it. --drop-damaged keeps the items
    of the newest version that are whole; the damaged store stays beside the new one, and the ids that were lost
    are written to a file. --salvage is for a store whose manifests are gone: deleted items may be back.

    \b
    Examples:
      bilsh repair store/
      bilsh repair store/ --to-version 7
      bilsh repair store/ --drop-damaged
      bilsh repair store/ --salvage new/
    """
    from bilsh.workflows.queries import check_place

    if sum((to_version is not None, drop_damaged, salvage is not None)) > 1:
        raise typer.BadParameter("give one of --to-version, --drop-damaged and --salvage.")
    check_place(store)
    answer: dict[str, Any] = {
        "version": None, "from": None, "items": None, "lost": None, "files": [], "versions": []
    }  # fmt: skip
    if salvage is not None:
        found, lines = _salvage(store, salvage)
    elif to_version is not None:
        found, lines = _go_back(store, to_version)
    else:
        found, lines = _drop_damaged(store) if drop_damaged else _check_versions(store)
    show.result(answer | found, lines)


Found = tuple[dict[str, Any], list[str]]


def _salvage(store: Path, new: Path) -> Found:
    from bilsh.store import Store

    done = Store.salvage(store, new)
    for name, reason in done.skipped:
        show.note(f"skipped {name}: {for_users(reason)}")
    lines = [f"{show.items(done.items)} of {len(done.segments)} segments saved in {show.clean(new)}"]
    return {"items": done.items, "files": [str(new)]}, lines


def _go_back(store: Path, version: int) -> Found:
    from bilsh.store import Store

    _check_store(store)
    newest = Store.repair(store, version)
    return {"version": newest, "from": version}, [f"version {newest} has the content of version {version}"]


def _drop_damaged(store: Path) -> Found:
    from bilsh.workflows.rescue import drop_damaged

    _check_store(store)
    with Progress() as progress:
        done = drop_damaged(store, progress=progress)
    lines = [
        f"{show.items(done.items)} saved, {show.items(done.lost)} lost",
        *([f"lost ids: {show.clean(done.lost_file)}"] if done.lost_file else []),
        f"damaged store: {show.clean(done.damaged)}",
    ]
    files = [name for name in (str(store), done.lost_file, done.damaged) if name]
    return {"items": done.items, "lost": done.lost, "files": files}, lines


def _check_versions(store: Path) -> Found:
    from dataclasses import asdict

    from bilsh.cli.answers import when
    from bilsh.workflows.rescue import check_versions

    _check_store(store)
    versions = check_versions(store)
    rows = [
        (v.version, when(v.time), "?" if v.items is None else f"{v.items:,}", for_users(v.problem or "ok"))
        for v in versions
    ]
    lines = show.table(("version", "made", "items", "state"), rows, left=("made", "state"))
    return {"versions": [asdict(v) for v in versions]}, lines


def _check_store(store: Path) -> None:
    from bilsh.store import Store

    if not Store.versions(store):
        raise DataNotFoundError(
            f"{store} holds no version of a store. Where its segments are still there, --salvage may save them."
        )


def export(
    store: StorePath,
    to: Annotated[Literal["faiss", "npy", "parquet", "fvecs"], typer.Option(help="Format.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Main file; default: <store>.<format>.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out items that are damaged, instead of stopping.")
    ] = False,
) -> None:
    """Write codes and ids, or kept vectors, for other programs.

    Beside them are put the encoder, checksums and, for stores of images, what describes a photograph.

    \b
    Examples:
      bilsh export store/ --to faiss -o photos.faiss
      bilsh export store/ --to parquet --force
    """
    from bilsh.workflows.exchange import SUFFIX
    from bilsh.workflows.exports import export_codes
    from bilsh.workflows.queries import open_store

    beside = store if store.name else store.resolve()
    target = output or beside.with_name(beside.name + SUFFIX[to])
    with open_store(store) as opened, Progress() as progress:
        done = export_codes(opened, target, to, overwrite=force, skip_damaged=skip_damaged, progress=progress)
    what = "vectors" if to == "fvecs" else f"codes of {done.bits:,} bits"
    show.result(
        {"items": done.items, "bits": done.bits, "skipped": done.skipped, "files": list(done.files)},
        [
            f"{done.items:,} {what} written"
            + (f", {done.skipped:,} damaged ones left out" if done.skipped else ""),
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
    bits: Annotated[
        int | None, typer.Option(min=1, help="Codes made elsewhere: their length, if not whole bytes.")
    ] = None,
    meaning: Annotated[
        Literal["unknown", "sign", "rotation"],
        typer.Option(
            help="Codes made elsewhere: a bit is the sign of a value (then values can be queries), or that of a "
            "rotated vector (then answers carry similarities)."
        ),
    ] = "unknown",
    highest_first: Annotated[
        bool,
        typer.Option(
            "--highest-first", help="Bits are packed as numpy.packbits does by default: highest first."
        ),
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="The codes are those of the store's encoder, though no file says so."),
    ] = False,
) -> None:
    """Put ready codes into a store: all of them, or none.

    They are what `bilsh export` wrote, or codes made elsewhere.

    Do not import .faiss files from strangers: FAISS trusts its files.

    \b
    Examples:
      bilsh import photos.faiss -o store/
      bilsh import codes.npy -o store/ --encoder my.encoder
      bilsh import bits.npy -o store/ --ids ids.txt --meaning sign
    """
    from bilsh.cli.answers import question
    from bilsh.workflows.imports import import_codes

    with Progress() as progress:
        done = import_codes(
            source, output, encoder=encoder, ids=ids, n_bits=bits, bits=MEANINGS[meaning],
            bitorder="big" if highest_first else None, trust=trust, progress=progress,
        )  # fmt: skip
    for message in done.notes:
        show.note(f"note: {message}")
    show.result(
        {"items": done.items, "bits": done.bits, "store": str(output), "checked": done.checked},
        [
            f"{done.items:,} codes of {done.bits:,} bits added to {show.clean(output)}",
            f"next: {question(output)}",
        ],
    )


COMMANDS: Commands = {
    "info": info,
    "verify": verify,
    "compact": compact,
    "backup": backup,
    "repair": repair,
    "export": export,
    "import": import_,
}
