"""How k real numbers are made of a descriptor: Dense, Bilinear, Circulant, Hadamard."""

from typing import Any

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections.base import LinearMap, Plan, Projection
from bilsh.projections.bilinear import Bilinear, BilinearMap
from bilsh.projections.circulant import Circulant, CirculantMap
from bilsh.projections.dense import Dense, DenseMap
from bilsh.projections.hadamard import Hadamard, HadamardMap

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
}


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
    "as_projection",
]
