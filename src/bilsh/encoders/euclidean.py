"""Learned codes for Euclidean neighbours: the paper's bilinear projection made to fit the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bilsh import _native
from bilsh.codes import as_codes
from bilsh.encoders import copies
from bilsh.encoders.base import Encoder, seed_sequence
from bilsh.encoders.coder import AngleCoder
from bilsh.encoders.estimators import AngleEncoder
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.encoders.fitting import Sample, fitted_transform
from bilsh.encoders.hit_angles import with_angles
from bilsh.encoders.neighbourhood import sample_rows
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections.transform import HEADER_BYTES, MOST_CENTRES
from bilsh.validation import check_choice, check_integer, is_sparse

TRANSFORMS = ("auto", "klt", "pca")
SAMPLE_ROWS = 40_000
SAMPLE_BYTES = 2**29
"""Bounds on the sample that is learned from."""
QUERIES = 500
ENOUGH_ITEMS = 3_000
"""Rows beside those that were learned from, above which no other rows are searched at fit."""
MOST_BYTES = 2**16
NORM_TOLERANCE = 1e-3


class EuclideanEncoder(Encoder):
    r"""Learned codes whose asymmetric estimates tell Euclidean distances, by rotations learned from the data.

    An item belongs to the nearest of some centres C. Its matrix is rotated from both sides by that centre's own
    rotations, :math:`R = W (X - C) V^\top`, learned from the covariances of rows and columns; vectors have one
    rotation. The direction of R is quantised, each coordinate by as many bits as its variance deserves. Beside them a
    code holds its length, how large the error :math:`|x - \hat x|` is at most, so that distances have a hard bound,
    and a correction of estimates.

    Codes are not compared with each other by Hamming distance: queries are descriptors, and searches rank by estimated
    distance. The bits stand in the order of their worth, so a prefix of a code is a code.

    Parameters
    ----------
    n_bytes : int, default=64
        Bytes of a code, four of them for centre, scale, correction and error.
    transform : {"auto", "klt", "pca"}, default="auto"
        "klt": rotations from both sides of matrices (vectors are reshaped). "pca": one rotation. "auto": "pca" for
        vectors of up to 4,096 numbers, and for matrices where it leaves a tenth less distortion; else "klt". Where all
        items are nearly equidistant (VLAD of photographs) and "centres" is "auto" too, copies of items are planted at
        fit, and if sign codes find more of them, the codes are those of an :class:`AngleEncoder` of as many bytes
        and the same random_state. "klt" and "pca" are never overruled.
    centres : int or "auto", default="auto"
        Number of centres, up to 256. "auto": 16 unless one finds clearly more on rows apart from those that were
        learned from, or rows are too few; 64 where these find more there than 16.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sample and of the centres.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: None is 1, -1 is all cores. The codes do not depend on it.

    Attributes
    ----------
    coder_ : EuclideanCoder or AngleCoder
        What encodes, without scikit-learn around it.
    n_centres_ : int
    transform_ : str
        The transform in use: "klt", "pca", or "sign" where the codes are those of AngleEncoder.
    copies_found_ : dict or None
        Share of planted copies that "learned" and "sign" codes found at fit; None where that was not measured.
    unit_norm_ : bool
        Whether the data at fit had length 1: then hits tell cosines.

    Notes
    -----
    Fitting looks at no more than 40,000 rows or 512 MB of them, whichever is less, and needs about five times the
    memory of these. Centres and frames take at most 32 MB.

    References
    ----------
    Zhang and Zhou, "(2D)2PCA", Neurocomputing 2005. Gersho and Gray, "Vector quantization and signal compression",
    1992.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh import EuclideanEncoder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 8, 8)) * np.linspace(2, 0.1, 8)
    >>> EuclideanEncoder(n_bytes=16, random_state=0).fit(X).transform(X).shape
    (500, 16)
    """

    coder_: EuclideanCoder | AngleCoder
    copies_found_: dict[str, float] | None = None

    def __init__(
        self,
        n_bytes: int = 64,
        transform: str = "auto",
        centres: int | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bytes = n_bytes
        self.__dict__["transform"] = transform
        self.centres = centres
        self.random_state = random_state
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        return {**super().get_params(deep=deep), "transform": self.__dict__["transform"]}

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn centres, rotations and bits from a sample of X.

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
        n_bytes = check_integer("n_bytes", self.n_bytes, minimum=HEADER_BYTES + 1)
        if n_bytes > MOST_BYTES:
            raise InvalidInputError(f"n_bytes must be at most {MOST_BYTES}; got {n_bytes}.")
        transform = check_choice("transform", self.__dict__["transform"], TRANSFORMS)
        centres = self._centres()
        X = self._enter(X, reset=True)
        rng = np.random.default_rng(seed_sequence(self.random_state))
        sample = _sample(X, rng)
        norms = np.sqrt(np.square(sample.train, dtype=np.float64).sum(axis=1))
        names = getattr(self, "feature_names_in_", None)
        try:
            coder, apart = (
                EuclideanCoder.of(
                    learned,
                    tuple(int(size) for size in X.shape[1:]),
                    params=self._settings(),
                    feature_names=None if names is None else tuple(names),
                    unit_norm=bool(np.abs(norms - 1).max() < NORM_TOLERANCE),
                )
                for learned in fitted_transform(sample, transform, centres, n_bytes, rng)
            )
            self.coder_, self.copies_found_ = with_angles(coder, apart, sample), None
            if transform == centres == "auto" and copies.are_all_far(sample):
                self._choose(self.coder_, X, sample, rng)
        except (_native.NonFiniteError, np.linalg.LinAlgError):
            raise InvalidInputError(
                "The numbers of X are so large that their squares overflow. Scale the data first, e.g. "
                "X / np.abs(X).max()."
            ) from None
        return self

    def _choose(self, learned: EuclideanCoder, X: Any, sample: Sample, rng: np.random.Generator) -> None:
        """Keep learned codes, or take sign codes as long, by which find more copies."""
        sign = AngleEncoder(8 * learned.n_bytes, random_state=self.random_state, n_jobs=self.n_jobs)
        names, sign = learned.feature_names, sign.fit(X)
        found = copies.measured(learned, sign.coder_, sample, rng)
        self.copies_found_ = {"learned": found.learned, "sign": found.sign}
        if found.by_signs:
            self.coder_ = replace(sign.coder_, feature_names=names)

    @property
    def _learned(self) -> EuclideanCoder:
        """The coder, where it is a learned one."""
        if not isinstance(self.coder_, EuclideanCoder):
            raise InvalidInputError(
                "this encoder's codes are sign codes, which found more copies at fit (copies_found_) and do not stand "
                "for descriptors. For learned codes pass transform='klt' or 'pca'."
            )
        return self.coder_

    def _centres(self) -> int | str:
        if isinstance(self.centres, str):
            return check_choice("centres", self.centres, ("auto",))
        centres = check_integer("centres", self.centres, minimum=1)
        if centres > MOST_CENTRES:
            raise InvalidInputError(f"centres must be at most {MOST_CENTRES}; got {centres}.")
        return centres

    def _enter(self, X: Any, *, reset: bool) -> Any:
        if is_sparse(X):
            raise InvalidTypeError("X is sparse; learned rotations take dense input only. Pass X.toarray().")
        return super()._enter(X, reset=reset)

    # -- what it learned -------------------------------------------------------------------------

    @property
    def n_centres_(self) -> int:
        """Number of centres."""
        return self.coder_.transform.n_centres if isinstance(self.coder_, EuclideanCoder) else 1

    @property
    def transform_(self) -> str:
        """The transform in use."""
        if not isinstance(self.coder_, EuclideanCoder):
            return "sign"
        return "klt" if self.coder_.transform.separable else "pca"

    @property
    def unit_norm_(self) -> bool:
        """Whether the data at fit had length 1."""
        return self._learned.unit_norm

    def inverse_transform(self, codes: Any) -> Any:
        """Descriptors (n, ...) that codes stand for: each item is nearer to its own than the code's error."""
        check_is_fitted(self)
        return self._learned.decode(as_codes(codes, "codes"))

    def truncated(self, length: int) -> Self:
        """Return the encoder of the first ``length`` bytes; its codes are the prefixes of this one's codes.

        Parameters
        ----------
        length : int
            Bytes, from 5 to this encoder's number of bytes.
        """
        check_is_fitted(self)
        n_bytes = check_integer("n_bytes", length, minimum=HEADER_BYTES + 1)
        short = type(self)(**{**self.get_params(deep=False), "n_bytes": n_bytes})
        return short._hold(self.coder_.truncated(8 * n_bytes))


class _MethodAndSetting:
    """A method that shares its name with a setting: reading gives the method, setting keeps the value.

    scikit-learn keeps a setting as the attribute of its name, and `transform` is a method's name too.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.method if instance is None else MethodType(self.method, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["transform"] = value


# After the class was made: scikit-learn wraps methods that a class body defines.
setattr(EuclideanEncoder, "transform", _MethodAndSetting(Encoder.transform))  # noqa: B010


def _sample(X: Any, rng: np.random.Generator) -> Sample:
    """Rows to learn from and to judge by."""
    d = int(np.prod(X.shape[1:]))
    rows = sample_rows(X, max(2, min(SAMPLE_ROWS, SAMPLE_BYTES // (4 * d))), rng)
    shape = (int(X.shape[1]), int(X.shape[2])) if X.ndim == 3 else None
    n_queries = min(QUERIES, len(rows) // 10)
    queries, rest = rows[:n_queries], rows[n_queries:]
    apart = len(rest) // 5
    train, items = (rest[apart:], rest[:apart]) if apart >= ENOUGH_ITEMS else (rest, rest)
    return Sample(train, items, queries if n_queries else rest[:1], shape)
