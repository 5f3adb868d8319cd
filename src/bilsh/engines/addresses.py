"""Where codes live, in one word: a directory, or an engine's address."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bilsh.encoders.coder import Coder
from bilsh.engines.base import Collection, Mode
from bilsh.engines.spec import CodeSpec
from bilsh.errors import IncompatibleCodesError, InvalidInputError
from bilsh.store.creation import coder_for
from bilsh.store.manifest import IdKind

ENGINES = {
    "store": "store",
    "faiss": "faiss",
    "lance": "lance",
    "postgresql": "postgres",
    "postgres": "postgres",
    "milvus": "milvus",
}
"""The module of each scheme."""

FORMS = "store/, faiss:file, lance:dir, postgresql://user@host/database?table=codes, milvus://host:19530/name"


@dataclass(frozen=True, slots=True)
class Address:
    """An address taken apart.

    Attributes
    ----------
    scheme : str
        Which engine; "store" for a plain path.
    rest : str
        A path, or the whole URL.
    """

    scheme: str
    rest: str

    @classmethod
    def of(cls, address: str | os.PathLike[str]) -> Address:
        """Read an address.

        Examples
        --------
        >>> Address.of("lance:codes.lance")
        Address(scheme='lance', rest='codes.lance')
        >>> Address.of("photos/").scheme
        'store'
        """
        text = os.fspath(address)
        head, colon, tail = text.partition(":")
        if isinstance(address, str) and colon and head in ENGINES:
            if "//" in tail[:2] and head in ("postgresql", "postgres", "milvus"):
                return cls(head, text)
            if not tail:
                raise InvalidInputError(f"{text!r} names no place. Addresses look like {FORMS}.")
            return cls(head, tail)
        if isinstance(address, str) and "://" in text:
            raise InvalidInputError(f"there is no engine {head!r}. Addresses look like {FORMS}.")
        return cls("store", text)

    @property
    def shown(self) -> str:
        """The address without its password."""
        if "://" not in self.rest:
            return self.rest if self.scheme == "store" else f"{self.scheme}:{self.rest}"
        parts = urlsplit(self.rest)
        if parts.password is None:
            return self.rest
        user, _, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))

    @property
    def module(self) -> Any:
        """The engine's module, loaded now."""
        return import_module(f"bilsh.engines.{ENGINES[self.scheme]}")


def open_collection(address: str | os.PathLike[str], mode: Mode = "r", *, encoder: Any = None) -> Collection:
    """Open codes wherever they are.

    Parameters
    ----------
    address : str or path
        ``store/``, ``faiss:file``, ``lance:dir``, ``postgresql://user@host/database?table=codes`` or
        ``milvus://host:19530/name``.
    mode : "r" or "a"
        Read, or read and change.
    encoder : fitted encoder, optional
        Refuse a collection whose codes another one made.

    Returns
    -------
    Collection
    """
    if mode not in ("r", "a"):
        raise InvalidInputError(f"mode must be 'r' (read) or 'a' (read and change); got {mode!r}.")
    where = Address.of(address)
    found: Collection = where.module.open_collection(where, mode)
    if encoder is not None:
        asked = CodeSpec(coder_for(encoder, None, None))
        if asked.fingerprint != found.spec.fingerprint:
            found.close()
            raise IncompatibleCodesError(
                f"{where.shown} holds codes of encoder {found.spec.fingerprint[:8]}..., not of "
                f"{asked.fingerprint[:8]}.... Open it without encoder=, and use its own."
            )
    return found


def create_collection(
    address: str | os.PathLike[str],
    encoder: Any = None,
    *,
    n_bits: int | None = None,
    bits: str | None = None,
    ids: IdKind = "int",
    **options: Any,
) -> Collection:
    """Make an empty collection and open it for writing; limits of the engine are refused here.

    Parameters
    ----------
    address : str or path
        As in :func:`bilsh.open`.
    encoder : fitted encoder, optional
        It is kept beside the codes.
    n_bits, bits
        Instead of an encoder: what codes that are made elsewhere look like, see :meth:`bilsh.Store.create`.
    ids : "int" or "str"
        Kind of the ids.
    **options
        Of the engine, e.g. ``connection=`` of PostgreSQL.
    """
    if ids not in ("int", "str"):
        raise InvalidInputError(f"ids must be 'int' or 'str'; got {ids!r}.")
    where = Address.of(address)
    coder: Coder = coder_for(encoder, n_bits, bits)
    made: Collection = where.module.create_collection(where, CodeSpec(coder), ids, **options)
    return made
