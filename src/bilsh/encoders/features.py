"""Random Fourier features, dense and bilinear: the codes before quantisation (sec. 2.2 and 3.1)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bilsh.encoders.estimators import KernelEncoder
from bilsh.projections import as_projection


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Features whose mean product is a shift-invariant kernel (eq. 3; bilinear: eq. 9).

    .. math:: \phi_r(x) = \sqrt{2} \cos(w_r^\top x / \sigma + b_r), \qquad
              \frac1k \sum_r \phi_r(x) \phi_r(y) \approx \kappa(x - y)

    With a bilinear projection the kernel is :math:`\kappa_b` of Lemma 1 instead of the Gaussian.

    Parameters
    ----------
    n_components : int, default=1024
        k, the number of features.
    kernel : {"gaussian", "laplacian", "cauchy", "matern"}, default="gaussian"
        The kernel; all but the Gaussian need ``projection="dense"``.
    bandwidth : float or "auto", default="auto"
        :math:`\sigma`; "auto" is the paper's rule, see :class:`bilsh.KernelEncoder`.
    nu : float, optional
        Smoothness of the Matern kernel; 1.5 if not given.
    projection : {"dense", "bilinear", "circulant", "hadamard"} or object, default="dense"
        As in the paper: ``"dense"`` or ``bilsh.Bilinear(orthogonal=False, scramble=False)``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn.

    Attributes
    ----------
    encoder_ : KernelEncoder
        Holds the drawn projection, bandwidth and offsets.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> features = RandomFourierFeatures(20_000, bandwidth=2.0, random_state=0).fit_transform(X)
    >>> squares = ((X[:, None] - X) ** 2).sum(axis=2)
    >>> bool(np.abs(features @ features.T / 20_000 - np.exp(-squares / 8)).max() < 0.06)
    True
    """

    encoder_: KernelEncoder

    def __init__(
        self,
        n_components: int = 1024,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        nu: float | None = None,
        projection: Any = "dense",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.nu = nu
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the projection for descriptors like X, and learn the bandwidth if it is "auto".

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        encoder = KernelEncoder(
            self.n_components,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            quadrature=False,
            nu=self.nu,
            projection=self.projection,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        self.encoder_ = encoder.fit(X)
        self.n_features_in_ = encoder.n_features_in_
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features (n, n_components)."""
        check_is_fitted(self)
        features: NDArray[np.float32] = np.cos(self.encoder_.phases(X))
        features *= np.float32(np.sqrt(2))
        return features

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.coder_.n_bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = as_projection(self.projection).accepts_sparse
        tags.transformer_tags.preserves_dtype = []
        return tags
