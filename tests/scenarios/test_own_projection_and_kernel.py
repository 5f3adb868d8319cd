"""A projection and a kernel of one's own, registered from outside: encode, search, estimate, save with them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import bilsh
from bilsh import _native, projections
from bilsh.projections import LinearMap, Projection
from bilsh.projections.kernels import KERNELS, Kernel


@dataclass(frozen=True)
class RademacherMap(LinearMap):
    """Weights of +1 and -1: nearly Gaussian sums, one bit per weight to store."""

    kind: ClassVar[str] = "rademacher"
    signs: np.ndarray

    @property
    def n_outputs(self):
        return len(self.signs)

    def plan(self, outputs, scale, offsets, tau):
        return _native.DensePlan(self.signs.astype(np.float32) * np.float32(scale), outputs, offsets, tau)

    def take(self, n_outputs):
        return RademacherMap(self.signs[:n_outputs])

    def arrays(self):
        return {"signs": self.signs}

    def settings(self):
        return {}

    @classmethod
    def restore(cls, settings, arrays):
        return cls(arrays["signs"])


class Rademacher(Projection):
    def draw(self, shape, n_outputs, rng, kernel):
        self.require_gaussian(kernel)
        return RademacherMap(rng.choice(np.array([-1, 1], dtype=np.int8), (n_outputs, int(np.prod(shape)))))


def rational_quadratic(nu, d):
    """kappa(s) = 1 / (1 + s^2): Gaussian weights of exponential length; mismatch by Lemma 2."""

    def mismatch(s, thresholds):
        n = np.arange(1, 20_001)[:, None]
        kernel = 1 / (1 + np.square(n * s))
        if thresholds == "random":
            return 4 / np.pi**2 - 8 / np.pi**2 * (kernel / (4 * n**2 - 1)).sum(axis=0)
        odd = n[::2]
        return 0.5 - 4 / np.pi**2 * (kernel[::2] / odd**2).sum(axis=0)

    return Kernel(
        "rational quadratic",
        "gaussian",
        "euclidean",
        value=lambda s: 1 / (1 + np.square(s)),
        mismatch=mismatch,
        row_lengths=lambda n, rng: np.sqrt(2 * rng.exponential(size=n)),
    )


@pytest.fixture
def registered():
    projections.register(Rademacher, RademacherMap)
    KERNELS["rational quadratic"] = rational_quadratic
    yield
    del projections.PROJECTIONS["rademacher"], projections.MAPS["rademacher"], KERNELS["rational quadratic"]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "make",
    [
        lambda: bilsh.AngleEncoder(2048, projection="rademacher", random_state=0),
        lambda: bilsh.KernelEncoder(2048, projection=Rademacher(), bandwidth=8.0, random_state=0),
        lambda: bilsh.KernelEncoder(
            2048, kernel="rational quadratic", projection="dense", bandwidth=8.0, random_state=0
        ),
    ],
    ids=["angle", "kernel", "own kernel"],
)
def test_all_rooms_work_with_what_they_have_never_seen(make, tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 32))
    encoder = make().fit(X)
    codes = encoder.transform(X)
    encoder.save(tmp_path / "own.encoder")
    again = bilsh.load_encoder(tmp_path / "own.encoder")
    np.testing.assert_array_equal(again.transform(X), codes)

    hits = bilsh.Index(codes, again).search(X[:20], k=5)
    assert (hits.ids[:, 0] == np.arange(20)).all()
    with bilsh.Store.create(tmp_path / "store", encoder) as store:
        store.add(X)
        np.testing.assert_array_equal(store.search(X[:20], k=5).ids, hits.ids)

    told = bilsh.estimate(codes[:200], codes[200:], encoder=again)
    if encoder.coder_.kind == "angle":
        a, b = (part - encoder.mean_ for part in (X[:200], X[200:]))
        true = np.arccos((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))
    else:
        true = np.linalg.norm(X[:200] - X[200:], axis=1)
    low, high = told.sampling_interval.T
    assert np.mean((low <= true) & (true <= high)) > 0.85
    assert np.abs(np.median(told.value / true) - 1) < 0.03
