"""Commands that fill stores and ask them: encode, add, search, delete. Each parses, calls one function and shows."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands, IdColumn, IdFile, Jobs, Key, OwnFunction, Place, StorePath
from bilsh.cli.progress import Progress

Method = Literal[
    "default", "kernel", "angle", "blsh-sik", "lsh-sik", "lsh-angle", "bilinear-angle",
    "circulant-sik", "circulant-angle", "hadamard-kernel", "hadamard-angle", "learned",
]  # fmt: skip


def encode(
    source: Annotated[
        Path, typer.Argument(help="Folder of images, or .npy .npz .parquet .csv .h5 .fvecs .bvecs.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="Directory of the store.")],
    bits: Annotated[int, typer.Option(min=1, help="Length of a code.")] = 4096,
    method: Annotated[
        Method,
        typer.Option(
            metavar="METHOD",
            help="default measures whether kernel or angle codes find more; "
            f"or {', '.join(get_args(Method)[1:-1])} or {get_args(Method)[-1]}.",
        ),
    ] = "default",
    oversampling: Annotated[
        int | None, typer.Option(min=1, help="m of Algorithm 1 (bilinear methods); 5 in the paper.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    batch: Annotated[
        int, typer.Option(min=1, help="Most items per commit; fewer where items are long.")
    ] = 8192,
    keep_vectors: Annotated[
        bool, typer.Option("--keep-vectors", help="Keep the items too (float32), for --rerank.")
    ] = False,
    ids: IdFile = None,
    id_column: IdColumn = None,
    key: Key = None,
    describe: Annotated[
        str,
        typer.Option(
            help="Images: hog-color, hog, vlad, pixels, or a function of your own as module:function; auto looks "
            "at the images."
        ),
    ] = "auto",
    codebook: Annotated[
        Path | None, typer.Option(help="VLAD: .npy of centres (c, 128); else learned from the images.")
    ] = None,
    centers: Annotated[int | None, typer.Option(min=1, help="VLAD: centres to learn.")] = None,
    side: Annotated[int | None, typer.Option(min=1, help="hog-color, hog, pixels: pixels per side.")] = None,
    max_side: Annotated[int | None, typer.Option(min=1, help="Shrink larger images to this side.")] = None,
    jobs: Jobs = 1,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Encode in so many processes, and commit once at the end.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Encode on a Dask cluster, dask://host:8786, which sees the same files."),
    ] = None,
) -> None:
    """Encode a folder of images or an array file into a new store.

    Works piece by piece, so the data may be larger than memory, and commits every batch: a run that was
    interrupted or killed goes on when the same command is run again, and ends with the same store.

    Items go by their row number (images: by their path within the folder), or by --ids or --id-column.

    \b
    Examples:
      bilsh encode photos/ -o store/ --bits 16384 --jobs 2
      bilsh encode photos/ -o store/ --describe mynet:embed
      bilsh encode x.npy -o store/ --keep-vectors --ids names.txt
      bilsh encode table.csv -o store/ --id-column sku
      bilsh encode large.npy -o store/ --cluster dask://scheduler:8786
      bilsh encode glove.hdf5 --key train -o store/ --method blsh-sik
      bilsh encode x.npy -o store/ --method learned --bits 512
    """
    from bilsh.cli.answers import question
    from bilsh.datasets.files import read_npy
    from bilsh.store.recipe import Settings
    from bilsh.workflows import ingest

    settings = Settings(
        bits, method, oversampling, seed, batch, "float32" if keep_vectors else None, key, describe, centers or 0,
        side, max_side,
    )  # fmt: skip
    centres = None if codebook is None else read_npy(codebook)
    if workers is not None and cluster is not None:
        raise typer.BadParameter("give --workers or --cluster, not both.")
    with ExitStack() as stack:
        fill = None
        if workers is not None or cluster is not None:
            from bilsh.distributed.running import executor_for, filling

            fill = filling(stack.enter_context(executor_for(workers, cluster)))
        progress = stack.enter_context(Progress())
        done = ingest.encode(
            source, output, settings,
            ids=ids, id_column=id_column, codebook=centres, jobs=jobs, progress=progress, fill=fill,
        )  # fmt: skip
    _show_added(done, question(output))


def add(
    store: StorePath,
    source: Annotated[Path, typer.Argument(help="Array file, image, or folder of images.")],
    ids: IdFile = None,
    id_column: IdColumn = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Replace items whose ids are there already.")
    ] = False,
    key: Key = None,
    describe: OwnFunction = None,
    jobs: Jobs = 1,
) -> None:
    """Add items to a store: all of them, or none.

    \b
    Examples:
      bilsh add store/ more.npy
      bilsh add store/ more.npy --ids names.txt --upsert
      bilsh add store/ new_photos/
    """
    from bilsh.workflows import ingest

    with Progress() as progress:
        done = ingest.add(
            store, source, ids=ids, id_column=id_column, upsert=upsert, key=key, describe=describe, jobs=jobs,
            progress=progress,
        )  # fmt: skip
    _show_added(done, f"bilsh info {show.shell(store)}")


def _show_added(done: Any, then: str) -> None:
    from dataclasses import asdict

    for message in done.notes:
        show.note(f"note: {message}")
    for path, reason in done.skipped[:20]:
        show.note(f"skipped {path}: {reason}")
    if len(done.skipped) > 20:
        show.note(f"skipped {len(done.skipped) - 20} more")
    codes = f"{done.encoder} codes of {done.bits:,} bits"
    if done.resumed_at and not done.written:
        lines = [f"nothing left to do: {done.store} holds {show.items(done.items)} ({codes})"]
    else:
        replaced = done.written - done.added
        also = f", {replaced:,} replaced in it" if replaced else ""
        lines = [f"{show.items(done.added)} added to {done.store}{also} ({codes}); it holds {done.items:,}"]
        if done.resumed_at:
            lines.insert(0, f"went on at item {done.resumed_at:,}")
    show.result(asdict(done), [*map(show.clean, lines), f"next: {then}"])


def search(
    store: Place,
    query: Annotated[Path | None, typer.Option(help="Array file of queries, or an image.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Find items like this item of the store.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours per query.")] = 10,
    mode: Annotated[
        Literal["auto", "progressive", "hamming", "asymmetric"],
        typer.Option(
            help="progressive and hamming rank by bits, asymmetric by the query's real values; auto takes the best."
        ),
    ] = "auto",
    recall: Annotated[
        float | None,
        typer.Option(
            help="Share of the nearest codes to find, 0.95 say, and read no more; see `bilsh index`."
        ),
    ] = None,
    radius: Annotated[int | None, typer.Option(min=0, help="All items within this many bits, not k.")] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Order by exact distance (needs --keep-vectors).")
    ] = False,
    where: Annotated[
        Path | None, typer.Option(help="Search only items with these ids: .npy, or one per line.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with the answer, and thumbnails of images.")
    ] = None,
    key: Key = None,
    id_column: IdColumn = None,
    describe: OwnFunction = None,
    jobs: Jobs = 1,
) -> None:
    """Find the nearest items, how similar they are, and how sure.

    \b
    Examples:
      bilsh search store/ --query photo.jpg --html found.html
      bilsh search store/ --query q.npy -k 5 --mode hamming --json
      bilsh search store/ --id 17 --radius 400
      bilsh search store/ --query q.npy --recall 0.95
    """
    if (query is None) == (id_ is None):
        raise typer.BadParameter("give either --query FILE or --id ID.")
    from bilsh.cli.answers import search_answer
    from bilsh.workflows import queries

    if html is not None:
        from bilsh.datasets.files import check_folder

        check_folder(html)
    with queries.open_place(store) as opened:
        asked = queries.Asked(
            query=query, key=key, id_column=id_column, ids=None if id_ is None else [id_], k=k, mode=mode,
            recall=recall, radius=radius, rerank=rerank, where=where, describe=describe,
            jobs=jobs,
        )  # fmt: skip
        found = queries.ask(opened, asked)
        data, lines = search_answer(found, opened)
        if html is not None:
            from bilsh.cli.page import write_page
            from bilsh.store import Store

            if not isinstance(opened, Store):
                raise typer.BadParameter("--html shows answers of stores only.")
            write_page(html, data, opened, query)
            lines.append(f"page: {show.clean(html)}")
            data["html"] = str(html)
    show.result(data, lines)


def delete(
    store: Place,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of items.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="File of ids: .npy, or one per line.")] = None,
) -> None:
    """Delete items by id; ids that are not there are passed over.

    \b
    Examples:
      bilsh delete store/ 17 18
      bilsh delete store/ holiday/img_0042.jpg
      bilsh delete store/ --from ids.txt
    """
    from bilsh.workflows.queries import open_place, parse_ids, read_ids

    wanted = [*(ids or []), *([] if from_ is None else read_ids(from_))]
    if not wanted:
        raise typer.BadParameter("give the ids of the items to delete, or --from FILE.")
    with open_place(store, "a") as opened:
        parsed = set(parse_ids(opened, wanted))
        count = opened.delete(sorted(parsed))
        left = len(opened)
    lines = [f"{show.items(count)} deleted from {show.clean(store)}; it holds {left:,}"]
    if count < len(parsed):
        lines.append(f"not there: {len(parsed) - count:,} of {len(parsed):,} ids")
    show.result({"deleted": count, "asked": len(parsed), "items": left}, lines)
    if not count:
        raise typer.Exit(1)


COMMANDS: Commands = {"encode": encode, "add": add, "search": search, "delete": delete}
