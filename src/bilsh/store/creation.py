"""The first version of a store: its encoder, and nothing else yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from bilsh.encoders.coder import Coder
from bilsh.encoders.foreign import BitPacking, ForeignCoder
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.files import seconds
from bilsh.store.files import Directory
from bilsh.store.manifest import Manifest, VectorKind, is_own_file
from bilsh.store.sections import SectionWriter
from bilsh.store.snapshot import LOCK_NAME, RESERVE_NAME, Snapshot, load, versions_among
from bilsh.store.writer import Writer


def refuse_contents(directory: Directory) -> None:
    """Raise FileExistsError where there is anything but the leftovers of a creation that was cut off."""
    names = directory.list()
    remedy = "Store.create needs a new or empty directory."
    if versions_among(names):
        raise FileExistsError(
            f"{directory.path} is a store already; open it with Store.open. Store.create needs a new directory."
        )
    if any(is_own_file(name) and name[0] not in "et" for name in names):
        raise FileExistsError(
            f"{directory.path} holds files of a store whose manifests are gone. Store.salvage may save its items; "
            f"{remedy}"
        )
    if any(not is_own_file(name) and name not in (LOCK_NAME, RESERVE_NAME) for name in names):
        raise FileExistsError(f"{directory.path} is not empty. {remedy}")


def first_version(writer: Writer, coder: Coder, keep_vectors: VectorKind | None, use_map: bool) -> Snapshot:
    """Write the encoder and commit a version without items."""
    fingerprint, data = coder.fingerprint, coder.to_bytes()
    file = SectionWriter(writer.directory, writer.new_name("e", "enc"), b"ENCO", len(data), fingerprint)
    try:
        file.section("encoder", "<u1", 1, [np.frombuffer(data, np.uint8)])
        ref = file.finish()
    finally:
        file.abandon()
    manifest = Manifest(
        format=1, version=1, time=seconds(), fingerprint=fingerprint,
        n_bits=coder.n_bits, n_features=coder.n_features, id_kind=None,
        next_id=0, keep_vectors=keep_vectors, encoder=ref, segments=(), deletes=None, repaired_from=None,
    )  # fmt: skip
    snapshot = load(writer.directory, manifest, use_map, None)
    writer.commit(manifest, base=0)
    return snapshot


def coder_for(encoder: Any, n_bits: int | None, bits: str | None, bitorder: BitPacking = "little") -> Coder:
    """Coder of a new store: the encoder's, or a stand-in for codes that are made elsewhere."""
    if encoder is None:
        if n_bits is None:
            raise InvalidInputError("give a fitted encoder, or n_bits= for codes that are made elsewhere.")
        return ForeignCoder.of(n_bits, bits, bitorder)
    if n_bits is not None or bits is not None or bitorder != "little":
        raise InvalidInputError(
            "n_bits=, bits= and bitorder= are for stores without an encoder; the encoder knows them."
        )
    coder = getattr(encoder, "coder_", encoder)
    if not isinstance(coder, Coder):
        if hasattr(encoder, "fit"):
            raise InvalidInputError("the encoder is not fitted yet. Call encoder.fit(X) first.")
        raise InvalidTypeError(f"encoder must be a fitted bilsh encoder; got {type(encoder).__name__}.")
    return coder
