"""What an engine can do, and what the codes of a collection are."""

from __future__ import annotations

from dataclasses import dataclass

from bilsh.codes import Codes
from bilsh.encoders.coder import NOT_HAMMING, Coder
from bilsh.errors import IncompatibleCodesError, InvalidInputError
from bilsh.store.inputs import UNCHECKED


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do, and its limits.

    Attributes
    ----------
    engine, version : str
    max_bits : int or None
        Longest code; None for any.
    max_indexed_bits : int or None
        Longest code that an approximate index takes; 0 where there is none.
    bit_multiple : int
        Codes are padded to a multiple of this many bits.
    bytes_per_bit : float
        What a bit takes in the engine.
    exact, approximate : bool
        Whether searches can be exact, and whether there is an index for others.
    ties_by_id : bool
        Whether the engine itself orders equal distances by id; else they are completed here.
    radius : bool
        Whether the engine finds all within a radius by itself; else lists are grown here until they reach it.
    filter : bool
        Whether ``where=`` also takes values of the metadata; ids it takes everywhere.
    atomic_batch : bool
        Whether a batch is written whole or not at all.
    max_batch_bytes : int or None
        Codes of one write; longer batches are cut.
    """

    engine: str
    version: str
    max_bits: int | None = None
    max_indexed_bits: int | None = 0
    bit_multiple: int = 8
    bytes_per_bit: float = 0.125
    exact: bool = True
    approximate: bool = False
    ties_by_id: bool = True
    radius: bool = True
    filter: bool = False
    atomic_batch: bool = True
    max_batch_bytes: int | None = None

    def check(self, spec: CodeSpec) -> None:
        """Refuse codes that are too long for the engine."""
        if self.max_bits is not None and spec.n_bits > self.max_bits:
            raise InvalidInputError(
                f"{self.engine} {self.version} holds codes of at most {self.max_bits:,} bits; these have "
                f"{spec.n_bits:,}. Use a prefix (encoder.truncated), or another engine."
            )


@dataclass(frozen=True, eq=False)
class CodeSpec:
    """What the codes of a collection are; kept beside them in the engine.

    Attributes
    ----------
    coder : Coder
        What made them, or the stand-in for codes that were made elsewhere.
    """

    coder: Coder

    def __post_init__(self) -> None:
        if not self.coder.by_hamming:
            raise InvalidInputError(
                f"{NOT_HAMMING}Engines know no other: keep them in a Store, and open it with bilsh.Store.open."
            )

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self.coder.n_bits

    @property
    def n_bytes(self) -> int:
        """Bytes of a code."""
        return self.coder.n_bytes

    @property
    def bit_order(self) -> str:
        """How bits lie in a byte: bit r of a code is bit r % 8, counted from the lowest, of byte r // 8."""
        return "little"

    @property
    def fingerprint(self) -> str:
        """Of all that determines the codes."""
        return self.coder.fingerprint

    @property
    def foreign(self) -> bool:
        """Whether the codes were made elsewhere."""
        return self.coder.kind == "foreign"

    @property
    def encoder(self) -> bytes | None:
        """Content of the encoder's file; None for codes that were made elsewhere."""
        return None if self.foreign else self.coder.to_bytes()

    def kept(self, codes: Codes) -> Codes:
        """Codes in the order of bits that searches compare them in."""
        return codes if self.coder.order is None else self.coder.order.apply(codes)

    def given(self, codes: Codes) -> Codes:
        """Inverse of :meth:`kept`: codes as the caller has them."""
        return codes if self.coder.order is None else self.coder.order.undo(codes)

    def to_bytes(self) -> bytes:
        """Return all of it, checksummed, without pickle."""
        return self.coder.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> CodeSpec:
        """Inverse of :meth:`to_bytes`; CorruptEncoderError says what is wrong with it."""
        return cls(Coder.from_bytes(data, source))

    def refuse(self, fingerprint: str | None) -> None:
        """Refuse codes of another encoder, and codes that nobody vouches for."""
        if fingerprint == UNCHECKED or (fingerprint is None and self.foreign):
            return
        if fingerprint is None:
            raise IncompatibleCodesError(
                "codes of another encoder would be found by nobody: say who made these, "
                f"fingerprint=encoder.fingerprint, or give your word with fingerprint={UNCHECKED!r}."
            )
        if fingerprint != self.fingerprint:
            raise IncompatibleCodesError(
                f"these codes were made by encoder {str(fingerprint)[:8]}..., the collection holds codes of encoder "
                f"{self.fingerprint[:8]}.... Encode the items with its encoder."
            )
