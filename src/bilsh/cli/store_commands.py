"""Commands on stores. Each parses, calls one function of the library and shows what came back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bilsh.cli import show
from bilsh.cli.options import Debug, Jobs, Json, Key, Quiet, StorePath

Method = Literal[
    "default", "kernel", "angle", "blsh-sik", "lsh-sik", "lsh-angle", "bilinear-angle",
    "circulant-sik", "circulant-angle", "hadamard-kernel", "hadamard-angle",
]  # fmt: skip


def encode(
    source: Annotated[
        Path, typer.Argument(help="Folder of images, or .npy .npz .parquet .h5 .fvecs .bvecs.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="Directory of the store.")],
    bits: Annotated[int, typer.Option(min=1, help="Length of a code.")] = 4096,
    method: Annotated[Method, typer.Option(help="How codes are made; default: by the data.")] = "default",
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
    key: Key = None,
    describe: Annotated[
        Literal["vlad", "hog", "pixels"], typer.Option(help="Images: how they become matrices.")
    ] = "vlad",
    codebook: Annotated[
        Path | None, typer.Option(help="VLAD: .npy of centres (c, 128); else learned from the images.")
    ] = None,
    centers: Annotated[int, typer.Option(min=1, help="VLAD: centres to learn.")] = 500,
    side: Annotated[int | None, typer.Option(min=1, help="hog, pixels: pixels per side.")] = None,
    max_side: Annotated[int | None, typer.Option(min=1, help="Shrink larger images to this side.")] = None,
    jobs: Jobs = 1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Encode a folder of images or an array file into a new store.

    Works piece by piece, so the data may be larger than memory, and commits every batch: a run that was
    interrupted or killed goes on when the same command is run again, and ends with the same store.

    \b
    Examples:
      bilsh encode photos/ -o store/ --bits 16384 --jobs 2
      bilsh encode photos/ -o store/ --describe pixels --side 32
      bilsh encode x.npy -o store/ --keep-vectors
      bilsh encode glove.hdf5 --key train -o store/ --method blsh-sik --oversampling 5
    """
    from bilsh.datasets.files import read_npy
    from bilsh.store.recipe import Settings
    from bilsh.workflows import ingest

    settings = Settings(
        bits, method, oversampling, seed, batch, "float32" if keep_vectors else None, key, describe, centers,
        side, max_side,
    )  # fmt: skip
    centres = None if codebook is None else read_npy(codebook)
    with show.progress() as progress:
        done = ingest.encode(source, output, settings, codebook=centres, jobs=jobs, progress=progress)
    _tell_added(done, f"bilsh search {output} --query FILE")


def add(
    store: StorePath,
    source: Annotated[Path, typer.Argument(help="Array file, image, or folder of images.")],
    ids: Annotated[
        Path | None, typer.Option(help="File of ids: .npy of integers, or text with one name per line.")
    ] = None,
    key: Key = None,
    jobs: Jobs = 1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Add items to a store: all of them, or none.

    \b
    Examples:
      bilsh add store/ more.npy
      bilsh add store/ more.npy --ids names.txt
      bilsh add store/ new_photos/
    """
    from bilsh.workflows import ingest
    from bilsh.workflows.queries import read_ids

    named = None if ids is None else read_ids(ids)
    with show.progress() as progress:
        done = ingest.add(store, source, ids=named, key=key, jobs=jobs, progress=progress)
    _tell_added(done, f"bilsh info {store}")


def _tell_added(done: Any, then: str) -> None:
    from dataclasses import asdict

    for path, reason in done.skipped[:20]:
        show.note(f"skipped {path}: {reason}")
    if len(done.skipped) > 20:
        show.note(f"skipped {len(done.skipped) - 20} more")
    codes = f"{done.encoder} codes of {done.bits:,} bits"
    if done.resumed_at and not done.added:
        lines = [f"nothing left to do: {done.store} holds {show.items(done.items)} ({codes})"]
    else:
        lines = [f"{show.items(done.added)} added to {done.store} ({codes}); it holds {done.items:,}"]
        if done.resumed_at:
            lines.insert(0, f"went on at item {done.resumed_at:,}")
    show.result(asdict(done), [*map(show.clean, lines), f"next: {show.clean(then)}"])


def search(
    store: StorePath,
    query: Annotated[Path | None, typer.Option(help="Array file of queries, or an image.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Find items like this item of the store.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours per query.")] = 10,
    mode: Annotated[
        Literal["progressive", "hamming", "asymmetric"] | None,
        typer.Option(
            help="progressive and hamming rank by bits, asymmetric by the query's real values "
            "(finds more; the default for --query)."
        ),
    ] = None,
    radius: Annotated[int | None, typer.Option(min=0, help="All items within this many bits, not k.")] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Order by exact distance (needs --keep-vectors).")
    ] = False,
    key: Key = None,
    jobs: Jobs = 1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the nearest items, with the similarity that their codes tell and its 95 % interval.

    \b
    Examples:
      bilsh search store/ --query photo.jpg
      bilsh search store/ --query q.npy -k 5 --mode hamming --json
      bilsh search store/ --id 17 --radius 400
    """
    if (query is None) == (id_ is None):
        raise typer.BadParameter("give either --query FILE or --id ID.")
    from bilsh.cli.answers import show_neighbors
    from bilsh.store import Store
    from bilsh.workflows import queries

    chosen = mode or ("hamming" if radius is not None or query is None else "asymmetric")
    settings: dict[str, Any] = {"mode": chosen, "n_jobs": jobs, "radius": radius}
    with Store.open(store) as opened:
        if query is not None:
            Q = queries.query_items(opened, query, key)
            hits = queries.search(opened, Q, k, rerank=rerank, **settings)
        else:
            if chosen == "asymmetric" or rerank:
                raise typer.BadParameter(
                    "--id searches by the item's code: leave out --mode asymmetric and --rerank."
                )
            codes = opened.get(queries.parse_ids(opened, [str(id_)])).codes
            hits = queries.search(opened, codes, k, of_codes=True, **settings)
        show_neighbors(hits, opened, reranked=rerank)


def delete(
    store: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of items.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="File of ids: .npy, or one per line.")] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Delete items by id; ids that are not there are passed over.

    \b
    Examples:
      bilsh delete store/ 17 18
      bilsh delete store/ holiday/img_0042.jpg
      bilsh delete store/ --from ids.txt
    """
    from bilsh.store import Store
    from bilsh.workflows.queries import parse_ids, read_ids

    wanted = [*(ids or []), *([] if from_ is None else [str(item) for item in read_ids(from_)])]
    if not wanted:
        raise typer.BadParameter("give the ids of the items to delete, or --from FILE.")
    with Store.open(store, mode="a") as opened:
        count = opened.delete(parse_ids(opened, wanted))
        left = len(opened)
    lines = [f"{show.items(count)} deleted from {show.clean(store)}; it holds {left:,}"]
    if count < len(wanted):
        lines.append(f"not there: {len(wanted) - count:,} of {len(wanted):,} ids")
    show.result({"deleted": count, "asked": len(wanted), "items": left}, lines)
    if not count:
        raise typer.Exit(1)


def info(store: StorePath, json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Tell what a store holds and how it was made.

    \b
    Example:
      bilsh info store/ --json
    """
    from bilsh.cli.answers import describe_store

    data, lines = describe_store(store)
    show.result(data, lines)


def verify(
    store: StorePath,
    deep: Annotated[
        bool, typer.Option("--deep", help="Check every byte, not only sizes and headers.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Check that a store is as it was written; exit code 3 names what is damaged.

    \b
    Example:
      bilsh verify store/ --deep
    """
    from bilsh.store import Store
    from bilsh.store.recipe import read_recipe

    with Store.open(store) as opened:
        found = opened.verify(deep=deep)
    read_recipe(store)
    what = "every byte" if deep else "sizes and headers"
    show.result(
        {"ok": True, "version": found.version, "files": found.files, "bytes": found.bytes, "deep": deep},
        [f"ok: version {found.version}, {found.files} files, {show.size(found.bytes)}, {what} checked"],
    )


def compact(store: StorePath, json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Rewrite a store as one segment without deleted items.

    The version before stays on disk until the next change, so that `bilsh repair` can go back to it.

    \b
    Example:
      bilsh compact store/
    """
    from bilsh.store import Store

    with Store.open(store, mode="a") as opened:
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
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Go back to an earlier version of a damaged store, after checking every byte of it.

    \b
    Examples:
      bilsh repair store/                  which versions there are
      bilsh repair store/ --to-version 7
    """
    from dataclasses import asdict

    from bilsh.cli.answers import when
    from bilsh.store import Store

    if to_version is not None:
        newest = Store.repair(store, to_version)
        show.result(
            {"version": newest, "from": to_version},
            [f"version {newest} has the content of version {to_version}"],
        )
        return
    versions = Store.versions(store)
    rows = [
        (v.version, when(v.time), "?" if v.items is None else f"{v.items:,}", v.problem or "ok")
        for v in versions
    ]
    show.result(
        {"versions": [asdict(v) for v in versions]},
        show.table(("version", "made", "items", "state"), rows, left=("made", "state")),
    )


def export(
    store: StorePath,
    to: Annotated[Literal["faiss", "npy", "parquet", "fvecs"], typer.Option(help="Format.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Main file; default: <store>.<format>.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write all codes and ids (fvecs: the kept vectors) for other programs; the encoder is put beside them.

    \b
    Examples:
      bilsh export store/ --to faiss -o photos.faiss
      bilsh export store/ --to parquet
    """
    from bilsh.store import Store
    from bilsh.workflows.exchange import SUFFIX, export_codes

    target = output or store.resolve().with_suffix(SUFFIX[to])
    with Store.open(store) as opened:
        done = export_codes(opened, target, to)
    show.result(
        {"items": done.items, "bits": done.bits, "files": list(done.files)},
        [
            f"{done.items:,} codes of {done.bits:,} bits written",
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
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Put ready codes into a store: what `bilsh export` wrote, or codes of a saved encoder.

    \b
    Examples:
      bilsh import photos.faiss -o store/
      bilsh import codes.npy -o store/ --encoder my.encoder
    """
    from bilsh.workflows.exchange import import_codes

    done = import_codes(source, output, encoder=encoder)
    show.result(
        {"items": done.items, "bits": done.bits, "store": str(output)},
        [f"{done.items:,} codes of {done.bits:,} bits added to {show.clean(output)}"],
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module, in the order in which help lists them."""
    app.command()(encode)
    app.command()(add)
    app.command()(search)
    app.command()(delete)
    app.command()(info)
    app.command()(verify)
    app.command()(compact)
    app.command()(repair)
    app.command()(export)
    app.command("import")(import_)
