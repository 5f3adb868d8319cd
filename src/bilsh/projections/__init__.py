"""How k real numbers are made of a descriptor: Dense, Bilinear, Circulant, Hadamard."""

from typing import Any

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections.base import LinearMap, Plan, Projection
from bilsh.projections.bilinear import Bilinear, BilinearMap
from bilsh.projections.circulant import Circulant, CirculantMap
from bilsh.projections.dense import Dense, DenseMap
from bilsh.projections.hadamard import Hadamard, HadamardMap
from bilsh.projections.transform import TransformMap

PROJECTIONS: dict[str, type[Projection]] = {
    "dense": Dense,
    "bilinear": Bilinear,
    "circulant": Circulant,
    "hadamard": Hadamard,
}
MAPS: dict[str, type[LinearMap]] = {
    "dense": DenseMap,
    "bilinear": BilinearMap,
    "circulant": CirculantMap,
    "hadamard": HadamardMap,
    "transform": TransformMap,
}


def register(projection: type[Projection], drawn: type[LinearMap]) -> None:
    """Make a projection of one's own known by the kind of its map: to encoders by name, and to encoder files."""
    PROJECTIONS[drawn.kind], MAPS[drawn.kind] = projection, drawn


def name_of(projection: Projection) -> str:
    """Name under which a projection is known; that of its class where it is not."""
    known = (name for name, kind in PROJECTIONS.items() if kind is type(projection))
    return next(known, type(projection).__name__.lower())


def as_projection(projection: Any) -> Projection:
    """Return the projection of that name with its default settings, or the object itself."""
    if isinstance(projection, Projection):
        return projection
    if not isinstance(projection, str):
        raise InvalidTypeError(
            f"projection must be a name or a projection object such as bilsh.Bilinear(); got {projection!r}."
        )
    if projection not in PROJECTIONS:
        listed = ", ".join(repr(name) for name in PROJECTIONS)
        raise InvalidInputError(f"projection must be one of {listed}, or an object; got {projection!r}.")
    return PROJECTIONS[projection]()


__all__ = [
    "MAPS",
    "PROJECTIONS",
    "Bilinear",
    "BilinearMap",
    "Circulant",
    "CirculantMap",
    "Dense",
    "DenseMap",
    "Hadamard",
    "HadamardMap",
    "LinearMap",
    "Plan",
    "Projection",
    "TransformMap",
    "as_projection",
    "name_of",
    "register",
]
