"""The JSON answers of the commands, version 1: which keys each has, and what they hold.

Every answer also has "schema" (1) and "command". A key is always there; what is not known or does not apply is null.
Keys are added without notice; one is removed or changes its meaning only with a new number. docs/cli.md shows this
table, and the tests compare it with every answer they see.
"""

from __future__ import annotations

ANSWERS: dict[str, dict[str, str]] = {
    "encode": {
        "store": "path",
        "added": "items that the store has more than before",
        "written": "items encoded: added ones, and those that replaced others",
        "items": "items in the store now",
        "resumed_at": "item at which a run that was cut off went on, 0 for a new one",
        "skipped": "list of [path, reason]",
        "encoder": "angle, kernel, or euclidean for learned codes",
        "bits": "length of a code",
        "fingerprint": "of the encoder",
        "notes": "list of sentences: what was chosen by a look at the data, and why",
    },
    "search": {
        "store": "path",
        "version": "of the store that was searched",
        "items": "items in the store",
        "bits": "length of a code",
        "mode": "how it was searched",
        "promise": "{target, k, recall, interval, queries, source, time} of a promised recall, null without",
        "quantity": "what the interval is of: cosine, kernel, or distance (learned codes); null where nothing is told",
        "confidence": "of the intervals",
        "background": "{low, median, high, share}: so many random pairs have similarities from low to high",
        "results": "list of {query, neighbors}",
        "html": "path of the page, null without --html",
    },
    "delete": {"deleted": "items deleted", "asked": "different ids given", "items": "items left"},
    "info": {
        "path": "of the store, or the engine's address",
        "engine": "store, or the engine's name",
        "engine_version": "null for a store",
        "items": "living items",
        "deleted_rows": "rows that wait for compaction; null in engines, as all that only stores have",
        "bits": "length of a code",
        "encoder": "angle, kernel, euclidean for learned codes, or foreign for codes made elsewhere",
        "projection": "dense, bilinear, circulant or hadamard; transform for learned codes",
        "input_shape": "shape of an item",
        "norm_ratio": "norm of the centred data over the distance to the 10th neighbour",
        "meaning": "of codes made elsewhere: sign, sign of a rotation, or null where it is not known",
        "bitorder": "little, or big for codes made elsewhere and packed highest bit first",
        "parameter_bytes": "size of the encoder's parameters",
        "fingerprint": "of the encoder",
        "ids": "int, str, or null before the first item",
        "keep_vectors": "float32, float16 or null",
        "segments": "number of segment files",
        "cells": "number of cells, 0 without",
        "bytes_on_disk": "of all files",
        "version": "newest version",
        "versions": "versions kept",
        "source": "path that `bilsh encode` read, or null",
        "described_by": "descriptor of images, or null",
        "finished": "whether `bilsh encode` came to its end, null for other stores",
    },
    "verify": {
        "ok": "true; damage is exit code 3",
        "version": "version checked",
        "files": "number of files",
        "bytes": "their size",
        "quick": "whether only sizes and headers were checked",
        "sha256": "over ids, codes and metadata of an engine's items; null for a store",
    },
    "compact": {
        "items": "living items",
        "bytes_before": "size of the segments before",
        "bytes_after": "and after",
        "version": "new version",
    },
    "backup": {
        "version": "version copied",
        "items": "items of it",
        "files_copied": "files that were not there yet",
        "bytes_copied": "their size",
    },
    "repair": {
        "version": "new version after --to-version, else null",
        "from": "version gone back to, else null",
        "items": "items saved by --drop-damaged or --salvage, else null",
        "lost": "items lost by --drop-damaged, else null",
        "files": "the new store; then the list of lost ids, the damaged store",
        "versions": "list of {version, time, items, problem}",
    },
    "index": {
        "cells": "number of cells, 0 where there are too few items",
        "items": "items in them",
        "version": "newest version",
    },
    "graph": {
        "items": "items whose neighbours were written",
        "k": "neighbours per item",
        "recall": "share of them that was asked for",
        "resumed_at": "part at which a run that was cut off went on, 0 for a new one",
        "files": "files written",
    },
    "duplicates": {
        "pairs": "pairs written",
        "within": "most differing bits of a pair",
        "resumed_at": "part at which a run that was cut off went on, 0 for a new one",
        "files": "files written",
    },
    "export": {
        "items": "items written",
        "bits": "length of a code",
        "skipped": "items left out because they are damaged",
        "files": "files written",
    },
    "import": {
        "items": "codes added",
        "bits": "length of a code",
        "store": "path",
        "checked": "whether the file's own digests were there and right",
    },
    "copy": {
        "source": "address",
        "destination": "address",
        "items": "items in both",
        "written": "items that this run wrote",
        "resumed": "whether an earlier run had been cut off",
        "bits": "length of a code",
        "fingerprint": "of the encoder",
        "sha256": "over ids, codes and metadata of both",
        "notes": "list of sentences",
    },
    "plan": {
        "items": "how many",
        "bits": "length of a code",
        "recall": "that answers may be limited to",
        "encode_seconds": "on all cores of all machines",
        "needs": "list of {engine, memory, disk, machines, load_seconds, query_seconds, progressive_seconds, "
        "build_seconds, recall_seconds}",
        "assumptions": "list of sentences",
    },
    "advise": {
        "rows": "items of the data",
        "item_shape": "shape of an item",
        "item_bytes": "bytes of an item",
        "recall": "recall@10 that was wanted",
        "by": "how searches shall rank: reranked, asymmetric or hamming",
        "pick": "{encoder, n_bits, n_bytes, at_10, at_100, expected, times} of the advised code",
        "reached": "whether it reaches the wanted recall",
        "curve": "all that was measured",
        "descriptor": "{name, centers, side, reason, precision} of images, else null",
        "uniform_bits": "bits for a promise about all pairs at once",
        "error": "of that promise",
        "confidence": "of that promise",
        "pairs": "of that promise",
        "assumptions": "shares of sampled pairs for which the paper's assumptions hold",
    },
    "datasets": {"datasets": "list of {name, items, shape, where}", "files": "files written"},
    "demo": {"rows": "table of the methods", "report": "path, null with --view", "store": "path"},
    "reproduce": {
        "figures": "names",
        "size": "quick or full",
        "report": "path",
        "files": "files written",
        "failures": "{figure: reason}",
    },
    "view": {"source": "path that was looked at"},
    "bench": {"size": "full, quick or smoke", "output": "folder", "files": "files written"},
}
ANSWERS["add"] = ANSWERS["encode"]

NEIGHBOR = {
    "rank": "from 1",
    "id": "integer or text",
    "distance": "differing bits; of learned codes the estimated distance",
    "exact_distance": "between the vectors, null without --rerank",
    "similarity": "the quantity as the codes tell it; grows with nearness; null where they tell distances",
    "interval": "[low, high] of the similarity, or of the distance",
    "stands_out": "whether the interval lies above the band of random pairs, null where there is none",
}
"""Keys of each neighbor in the results of a search."""


def markdown() -> str:
    """Return the table of all keys, as docs/cli.md has it."""
    lines = ["| command | key | holds |", "|---|---|---|"]
    shown = {
        "encode, add" if name == "encode" else name: keys for name, keys in ANSWERS.items() if name != "add"
    }
    for command, keys in shown.items():
        for number, (key, meaning) in enumerate(keys.items()):
            lines.append(f"| {command if not number else ''} | `{key}` | {meaning} |")
    return "\n".join(lines)
