"""Generated data: matrices whose differences have a chosen spectrum, and clustered vectors for search tests.

What a bilinear code keeps of two matrices depends on their difference only through its spectrum, the
eigenvalues lambda_j of (X - Y)(X - Y)^T (Lemma 1). These generators set it.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError

Rng = int | np.random.Generator | None


def _checked(n: int, shape: tuple[int, int], spectrum: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(spectrum, dtype=np.float64)
    if n < 1 or len(shape) != 2 or min(shape) < 1:
        raise InvalidInputError(f"Need n >= 1 matrices of shape (d_w, d_v); got n = {n}, shape = {shape}.")
    if values.ndim != 1 or not 1 <= len(values) <= min(shape) or not (values >= 0).all():
        raise InvalidInputError(
            f"spectrum must hold 1 to {min(shape)} eigenvalues >= 0 for matrices of shape {tuple(shape)}; "
            f"got {values.shape} values."
        )
    return values


def _frames(count: int, size: int, rank: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw orthonormal frames (count, size, rank), uniformly."""
    Q, R = np.linalg.qr(rng.normal(size=(count, size, rank)))
    # Without the signs of R's diagonal the factor's own convention would bias the directions.
    return np.asarray(Q * np.sign(np.einsum("nii->ni", R))[:, None, :])


def synthetic_matrices(
    n: int, shape: tuple[int, int], spectrum: ArrayLike, rng: Rng = None
) -> NDArray[np.float32]:
    r"""Draw matrices whose pairwise differences have the given spectrum on average.

    .. math:: X_i = U \operatorname{diag}(\sqrt{\lambda / 2} \circ z_i) V^\top, \quad z_i \sim N(0, I)

    with one random pair of orthonormal frames U, V for all. The difference of any two then has singular
    directions U, V, and its eigenvalue along direction j has mean lambda_j; the squared Frobenius distance
    has mean :math:`\sum_j \lambda_j`. One value gives rank-one differences, equal values flat ones.

    Parameters
    ----------
    n : int
    shape : (d_w, d_v)
    spectrum : array (r,)
        Mean eigenvalues lambda_j >= 0, r <= min(shape).
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    float32 (n, d_w, d_v)

    See Also
    --------
    synthetic_pairs : pairs with exactly this spectrum.

    Examples
    --------
    >>> synthetic_matrices(3, (4, 5), [0.5, 0.1], rng=0).shape
    (3, 4, 5)
    """
    values = _checked(n, shape, spectrum)
    generator = np.random.default_rng(rng)
    U = _frames(1, shape[0], len(values), generator)[0] * np.sqrt(values / 2.0)
    V = _frames(1, shape[1], len(values), generator)[0]
    z = generator.normal(size=(n, len(values)))
    # One matrix product with the (r, d_w * d_v) rank-one pieces, instead of n small ones.
    pieces = np.einsum("pr,qr->rpq", U, V).reshape(len(values), -1)
    X: NDArray[np.float32] = z.astype(np.float32) @ pieces.astype(np.float32)
    return X.reshape(n, *shape)


def synthetic_pairs(
    n: int, shape: tuple[int, int], spectrum: ArrayLike, rng: Rng = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Draw pairs (X, Y) where every difference has exactly the given spectrum.

    .. math:: Y_i = X_i - U_i \operatorname{diag}(\sqrt{\lambda}) V_i^\top

    with standard normal X and independent random orthonormal frames.

    Parameters
    ----------
    n, shape, spectrum, rng
        As in :func:`synthetic_matrices`.

    Returns
    -------
    X, Y : float64 (n, d_w, d_v)

    Examples
    --------
    >>> X, Y = synthetic_pairs(2, (4, 5), [0.5, 0.1], rng=0)
    >>> np.linalg.eigvalsh((X[1] - Y[1]) @ (X[1] - Y[1]).T)[::-1].round(12).clip(0)
    array([0.5, 0.1, 0. , 0. ])
    """
    values = _checked(n, shape, spectrum)
    generator = np.random.default_rng(rng)
    U = _frames(n, shape[0], len(values), generator) * np.sqrt(values)
    V = _frames(n, shape[1], len(values), generator)
    X = generator.normal(size=(n, *shape))
    return X, X - U @ V.transpose(0, 2, 1)


def clustered(
    n: int, d: int, *, n_clusters: int = 100, spread: float = 0.3, rng: Rng = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw vectors in Gaussian clusters, so that near neighbours are truly near, as in real descriptors.

    Parameters
    ----------
    n, d : int
        Number of vectors and their dimension.
    n_clusters : int
        Centres are standard normal, each vector's cluster is drawn uniformly.
    spread : float
        Standard deviation within a cluster, where that between centres is 1.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    X : float32 (n, d)
    labels : int64 (n,)

    Examples
    --------
    >>> X, labels = clustered(1000, 16, n_clusters=5, rng=0)
    >>> X.shape, labels.max()
    ((1000, 16), np.int64(4))
    """
    if n < 1 or d < 1 or n_clusters < 1 or not spread >= 0:
        raise InvalidInputError(
            f"Need n, d, n_clusters >= 1 and spread >= 0; got {n}, {d}, {n_clusters} and {spread}."
        )
    generator = np.random.default_rng(rng)
    centres = generator.standard_normal((n_clusters, d), dtype=np.float32)
    labels = generator.integers(n_clusters, size=n)
    X = generator.standard_normal((n, d), dtype=np.float32)
    X *= np.float32(spread)
    X += centres[labels]
    return X, labels
