"""What the estimators share: the door, fitting in steps, properties of the coder that was fitted, files."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from functools import wraps
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bilsh import _native
from bilsh.encoders import file
from bilsh.encoders.coder import Coder
from bilsh.encoders.sampling import with_hits
from bilsh.errors import InvalidInputError
from bilsh.projections import BilinearMap, DenseMap, LinearMap, Projection, as_projection, name_of
from bilsh.projections.base import Bytes, Integers
from bilsh.types import Values
from bilsh.validation import as_descriptors, check_integer

MAX_BITS = 2**28
"""Longest code; distances are counted in 32 bits."""


class Draws(NamedTuple):
    """A generator for each thing that is drawn, so that one draw never shifts another."""

    projection: np.random.Generator
    offsets: np.random.Generator
    order: np.random.Generator
    sample: np.random.Generator


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Turn scikit-learn's random_state (None, int, RandomState or Generator) into one seed sequence."""
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    if random_state is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(check_integer("random_state", random_state, minimum=0))


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the encoders: scikit-learn around a :class:`bilsh.encoders.coder.Coder`, held as ``coder_``."""

    random_state: Any
    n_jobs: int | None

    coder_: Coder
    n_features_in_: int

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what encoding needs."""

    @abstractmethod
    def truncated(self, n_bits: int) -> Self:
        """Return the encoder of a prefix; its codes are the prefixes of this one's codes."""

    def _takes_sparse(self) -> bool:
        return False

    def _settings(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values; a random state that is an object is not kept."""
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], int | np.integer):
            params["random_state"] = None
        return {
            name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()
        }

    def _enter(self, X: Any, *, reset: bool) -> Any:
        """Check X against what was fitted, or remember its shape; return an array (n, ...) or a CSR matrix."""
        original = X
        if reset:
            X = as_descriptors(X, accept_sparse=self._takes_sparse())
            if X.shape[0] == 0:
                raise InvalidInputError(
                    f"X has 0 sample(s) (shape={X.shape}) while a minimum of 1 is required to fit."
                )
        elif self.coder_.fits(X) and not hasattr(self, "feature_names_in_"):
            return X
        else:
            X = as_descriptors(X, accept_sparse=self.coder_.projection.accepts_sparse)
        if X.ndim == 2:
            # scikit-learn compares names and number of columns; flat rows of fitted matrices have no names.
            validate_data(self, original, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = int(np.prod(X.shape[1:]))
            self.__dict__.pop("feature_names_in_", None)
        return X

    # -- encoding --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Bytes:
        """Encode descriptors.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors of the shape seen at fit; n may be 0.

        Returns
        -------
        uint8 array (n, ceil(n_bits / 8))
            Packed codes: bit r is ``codes[:, r // 8] >> (r % 8) & 1``; padding bits are zero.
        """
        check_is_fitted(self)
        return self.coder_.encode(self._enter(X, reset=False), n_jobs=self.n_jobs)

    # -- what a fitted encoder tells ----------------------------------------------------------------

    @property
    def input_shape_(self) -> tuple[int, ...]:
        """Shape of a descriptor."""
        return self.coder_.input_shape

    @property
    def n_bytes_(self) -> int:
        """Bytes of a code."""
        return self.coder_.n_bytes

    @property
    def parameter_bytes_(self) -> int:
        """Bytes of all numbers that encoding needs."""
        return self.coder_.parameter_bytes

    @property
    def _n_features_out(self) -> int:
        return self.n_bytes_

    # -- files -----------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that determines the codes, in hexadecimal."""
        check_is_fitted(self)
        return self.coder_.fingerprint

    def to_bytes(self) -> bytes:
        """Return the encoder as the content of an encoder file; see :func:`bilsh.encoder_from_bytes`."""
        check_is_fitted(self)
        return self.coder_.to_bytes()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the encoder to a file: its parameters themselves, checksummed, without pickle.

        The file appears under its name only when it is complete and on the disk.
        """
        check_is_fitted(self)
        file.save(self.coder_, path)

    def _hold(self, coder: Coder) -> Self:
        """Become the fitted encoder of a coder."""
        self.coder_, self.n_features_in_ = coder, coder.n_features
        if coder.feature_names is not None:
            self.feature_names_in_: NDArray[Any] = np.array(coder.feature_names, dtype=object)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coder_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = self._takes_sparse()
        tags.transformer_tags.preserves_dtype = []
        return tags


_wrapped = Encoder.transform


@wraps(_wrapped)
def _transform(self: Encoder, X: Any) -> Any:
    # Rows that fit, without names to compare and without a container to be put into: to find that out takes
    # scikit-learn as long as to encode a small item.
    known = self.__dict__
    if (
        (coder := known.get("coder_")) is not None
        and coder.fits(X)
        and "feature_names_in_" not in known
        and "_sklearn_output_config" not in known
        and get_config()["transform_output"] == "default"
    ):
        return coder.encode_fitting(X, self.n_jobs)
    return _wrapped(self, X)


setattr(Encoder, "transform", _transform)  # noqa: B010


class ProjectedEncoder(Encoder):
    """Encoders whose bits are made of a random projection, each by itself."""

    n_bits: int
    projection: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the projection for descriptors like X, and learn from X what the encoder needs of the data.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors: vectors or matrices. At least one.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        n_bits = check_integer("n_bits", self.n_bits, minimum=1)
        if n_bits > MAX_BITS:
            raise InvalidInputError(f"n_bits must be at most {MAX_BITS}; got {n_bits}.")
        projection = as_projection(self.projection)
        X = self._enter(X, reset=True)
        draws = Draws(*(np.random.default_rng(s) for s in seed_sequence(self.random_state).spawn(4)))
        try:
            self.coder_ = with_hits(self._fit(X, n_bits, projection, draws), X, draws.sample)
        except _native.NonFiniteError:
            raise InvalidInputError(
                "The projection of the mean of X overflows float32. Scale the data first, e.g. X / np.abs(X).max()."
            ) from None
        return self

    @abstractmethod
    def _fit(self, X: Any, n_bits: int, projection: Projection, draws: Draws) -> Coder:
        """Learn from the data and draw the rest."""

    def _takes_sparse(self) -> bool:
        return as_projection(self.projection).accepts_sparse

    def _settings(self) -> dict[str, Any]:
        projection = self.projection
        if not isinstance(projection, str):
            projection = {"name": name_of(projection), **projection.get_params(deep=False)}
        return {**super()._settings(), "projection": projection}

    def phases(self, X: Any) -> Values:
        """Return the real values that the bits are made from, for asymmetric search.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors of the shape seen at fit.

        Returns
        -------
        float32 array (n, n_bits)
            Angle codes: w . (x - mean), a bit is [value >= 0]. Kernel codes: w . x / bandwidth + b in radians,
            a bit is [cos(value) + t >= 0].
        """
        check_is_fitted(self)
        return self.coder_.phases(self._enter(X, reset=False), n_jobs=self.n_jobs)

    @property
    def projection_(self) -> LinearMap:
        """The drawn projection with its arrays."""
        return self.coder_.projection

    @property
    def outputs_(self) -> Integers:
        """Which output of the projection each bit uses."""
        return self.coder_.outputs

    @property
    def norm_ratio_(self) -> float:
        """Norm of the centred data over the distance to the 10th neighbour, on a sample."""
        return self.coder_.norm_ratio

    @property
    def matrix_shape_(self) -> tuple[int, int] | None:
        """(d_w, d_v) that a bilinear projection sees, zero-padding included; None for other projections."""
        return getattr(self.projection_, "matrix_shape", None)

    @property
    def grid_shapes_(self) -> tuple[tuple[int, int], ...] | None:
        """Rows and columns of the grid that the pairs are taken from, or of several stacked ones; else None."""
        return getattr(self.projection_, "grid_shapes", None)

    @property
    def pairs_(self) -> Integers:
        """I of Algorithm 1: bit r uses left vector ``pairs_[r, 0]`` and right vector ``pairs_[r, 1]``."""
        return np.asarray(self._map(BilinearMap, "pairs_").pairs[self.outputs_])

    @property
    def left_weights_(self) -> Values:
        """W (d_w, a): left projection vectors as columns."""
        return np.asarray(self._map(BilinearMap, "left_weights_").left.T)

    @property
    def right_weights_(self) -> Values:
        """V (d_v, c): right projection vectors as columns."""
        return np.asarray(self._map(BilinearMap, "right_weights_").right.T)

    @property
    def weights_(self) -> Values:
        """Weights (d, n_bits) of a dense projection, a column per bit. Made anew when they are not kept."""
        dense = self._map(DenseMap, "weights_")
        return np.asarray(dense.rows(0, dense.n_outputs)[self.outputs_].T)

    def _map(self, kind: type[Any], name: str) -> Any:
        if not isinstance(self.projection_, kind):
            raise AttributeError(f"{name} exists for {kind.kind} projections only; see projection_.")
        return self.projection_

    def truncated(self, n_bits: int) -> Self:
        """Return the encoder of the first ``n_bits`` bits; its codes are the prefixes of this one's codes.

        Parameters
        ----------
        n_bits : int
            From 1 to this encoder's number of bits.
        """
        check_is_fitted(self)
        short = type(self)(**{**self.get_params(deep=False), "n_bits": n_bits})
        return short._hold(self.coder_.truncated(n_bits))
