"""Small stores to look at, and clients that ask as a browser would."""

import numpy as np
import pytest

import bilsh
from bilsh.viewer.app import make_app
from bilsh.viewer.session import Session
from viewer.browser import launched

HOST, PORT, TOKEN = "127.0.0.1", 8765, "secret-token"
CLUSTERS = 24
ODD_IDS = ["<script>alert(1)</script>", "=1+1", "a b&c.png", "../../etc/passwd", "ünïcödé 🙂", 'q"uote']


def clusters(n=240, seed=0):
    """Matrices (n, 6, 5) in tight clusters, so few that pairs within one are rare."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, 6, 5))
    return (centres[np.arange(n) % CLUSTERS] + 0.15 * rng.normal(size=(n, 6, 5))).astype(np.float32)


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """Stores by name: with vectors, with codes only and odd names, of kernel codes, of codes made elsewhere, empty."""
    place = tmp_path_factory.mktemp("viewer")
    X = clusters()
    angle = bilsh.AngleEncoder(n_bits=256, random_state=0).fit(X)
    with bilsh.Store.create(place / "vectors", angle, keep_vectors="float32") as store:
        store.add(X)
    with bilsh.Store.create(place / "names", angle) as store:
        names = [*ODD_IDS, *(f"item {i:03d}" for i in range(len(ODD_IDS), len(X)))]
        notes = [
            {"label": i % CLUSTERS, "note": "<img src=x onerror=alert(1)>"} if i % 2 else None
            for i in range(len(X))
        ]
        store.add(X, ids=names, metadata=notes)
    kernel = bilsh.KernelEncoder(n_bits=200, random_state=0).fit(X)
    with bilsh.Store.create(place / "kernel", kernel, keep_vectors="float16") as store:
        store.add(X)
    with bilsh.Store.create(place / "foreign", n_bits=128) as store:
        store.add_codes(np.random.default_rng(0).integers(0, 256, size=(50, 16), dtype=np.uint8))
    bilsh.Store.create(place / "empty", angle).close()
    np.save(place / "x.npy", X)
    return place


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of 24 images and the store that was made from it."""
    import cv2

    from bilsh.store.recipe import Settings
    from bilsh.workflows import ingest

    place = tmp_path_factory.mktemp("photos")
    folder = place / "in"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(24):
        image = cv2.resize(rng.integers(0, 256, size=(6, 8, 3), dtype=np.uint8), (96, 72))
        cv2.imwrite(str(folder / f"photo {number:02d}.png"), image)
    ingest.encode(
        folder,
        place / "store",
        Settings(bits=256, method="angle", describe="pixels", side=12, keep_vectors="float32"),
    )
    return place


class Asked:
    """A client with the cookie that the first address gives."""

    def __init__(self, path, images=None):
        from starlette.testclient import TestClient

        self.session = Session(path, images)
        self.app = make_app(self.session, host=HOST, port=PORT, token=TOKEN)
        self.client = TestClient(self.app, base_url=f"http://{HOST}:{PORT}", raise_server_exceptions=False)
        self.client.get(f"/?token={TOKEN}")

    def get(self, path, status=200, **settings):
        answer = self.client.get(f"/api/v1{path}", **settings)
        assert answer.status_code == status, answer.text
        return answer

    def json(self, path, status=200):
        return self.get(path, status).json()

    def until_done(self, path):
        """Ask again while the server is still at work."""
        while True:
            answer = self.client.get(f"/api/v1{path}")
            if answer.status_code != 202:
                assert answer.status_code == 200, answer.text
                return answer.json()


@pytest.fixture(scope="session")
def asked(places):
    """Give a client of the store that is named."""
    kept = {}

    def client(name):
        if name not in kept:
            kept[name] = Asked(places / name)
        return kept[name]

    return client


@pytest.fixture(scope="session")
def photo_client(photos):
    return Asked(photos / "store")


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started
