"""Descriptors against loops, and folders of generated images: skipping, resuming, several processes."""

import math
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import cv2
import numpy as np
import pytest

from bilsh import datasets, descriptors
from bilsh.descriptors import folder as folder_module
from bilsh.descriptors import kinds
from bilsh.errors import BilshError, InvalidInputError, MissingPackageError


def scene(seed, height=96, width=128):
    """Draw blobs and bars: enough structure for SIFT."""
    rng = np.random.default_rng(seed)
    image = np.full((height, width), 90, np.uint8)
    for _ in range(25):
        x, y, r = int(rng.integers(width)), int(rng.integers(height)), int(rng.integers(3, 14))
        shade = int(rng.integers(256))
        if rng.random() < 0.5:
            cv2.circle(image, (x, y), r, shade, -1)
        else:
            cv2.rectangle(image, (x, y), (x + r, y + 2 * r), shade, -1)
    return image


@pytest.fixture
def folder(tmp_path):
    """Seven good images, one file that is none, and one image without any structure."""
    root = tmp_path / "images"
    root.mkdir()
    for i in range(7):
        cv2.imwrite(str(root / f"{i}.png"), scene(i))
    (root / "3 broken.jpg").write_bytes(b"no image")
    cv2.imwrite(str(root / "5 flat.png"), np.full((64, 64), 128, np.uint8))
    return root


@pytest.fixture
def codebook():
    return np.random.default_rng(0).uniform(0, 60, (6, 128)).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(folder_module, "_CHUNK", 2)


def vlad_by_loops(local, codebook, power):
    """Translate the definition loop by loop."""
    v = [[0.0] * len(codebook[0]) for _ in codebook]
    for x in local:
        distances = [sum((a - b) ** 2 for a, b in zip(x, centre, strict=True)) for centre in codebook]
        c = distances.index(min(distances))
        for j, value in enumerate(x):
            v[c][j] += value - codebook[c][j]
    v = [[math.copysign(abs(value) ** power, value) for value in row] for row in v]
    length = math.sqrt(sum(value * value for row in v for value in row))
    return [[value / length for value in row] for row in v]


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_vlad_is_its_definition(codebook, power):
    local = descriptors.sift(scene(1))
    assert len(local) > 20
    expected = vlad_by_loops(local.astype(float).tolist(), codebook.astype(float).tolist(), power)
    found = descriptors.vlad(local, codebook, power)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_vlad_reshapes_as_the_paper_and_has_unit_length():
    book = np.random.default_rng(0).uniform(0, 60, (500, 128))
    descriptor = descriptors.Vlad(book)
    assert descriptor.shape == (250, 256)
    X = descriptor.compute(scene(2))
    assert X.shape == (250, 256)
    assert np.linalg.norm(X) == pytest.approx(1, abs=1e-5)
    local = descriptors.sift(scene(2))
    np.testing.assert_array_equal(X.ravel(), descriptors.vlad(local, descriptor.codebook).ravel())
    assert descriptors.Vlad(book[:5]).shape == (5, 128)
    assert descriptors.Vlad(book, matrix_shape=(500, 128)).compute(scene(2)).shape == (500, 128)


def test_nothing_to_describe_gives_none(codebook):
    assert descriptors.vlad(np.empty((0, 128)), codebook) is None
    assert descriptors.vlad(codebook[:1], codebook) is None
    assert descriptors.Vlad(codebook).compute(np.zeros((40, 40), np.uint8)) is None


def hog_by_loops(image):
    """Translate the definition pixel by pixel."""
    side, cells = len(image), len(image) // 8
    grid = [[[0.0] * 9 for _ in range(cells)] for _ in range(cells)]
    for y in range(side):
        for x in range(side):
            dx = float(image[y][min(x + 1, side - 1)]) - float(image[y][max(x - 1, 0)])
            dy = float(image[min(y + 1, side - 1)][x]) - float(image[max(y - 1, 0)][x])
            position = math.degrees(math.atan2(dy, dx)) % 180 / 20
            low = math.floor(position)
            grid[y // 8][x // 8][low % 9] += math.hypot(dx, dy) * (1 - position + low)
            grid[y // 8][x // 8][(low + 1) % 9] += math.hypot(dx, dy) * (position - low)
    rows = []
    for y in range(cells - 1):
        for x in range(cells - 1):
            row = grid[y][x] + grid[y][x + 1] + grid[y + 1][x] + grid[y + 1][x + 1]
            for limit in (0.2, 1.0):
                length = max(math.sqrt(sum(value * value for value in row)), 1e-6)
                row = [min(value / length, limit) for value in row]
            rows.append(row)
    return rows


def test_hog_is_its_definition():
    image = scene(4, 32, 32)
    X = descriptors.Hog(32).compute(image)
    assert X.shape == descriptors.Hog(32).shape == (9, 36)
    np.testing.assert_allclose(X, hog_by_loops(image.tolist()), atol=2e-6)


def test_hog_of_a_step_points_across_it():
    image = np.zeros((128, 128), np.uint8)
    image[:, 64:] = 255
    bins = descriptors.Hog(64).compute(image).reshape(-1, 9).sum(axis=0)
    # A vertical edge has a horizontal gradient: all weight lies in the first bin, at 0 degrees.
    assert bins[0] > 0
    np.testing.assert_array_equal(bins[1:], 0)


def test_pixels_are_the_resized_image():
    image = np.kron(np.arange(12, dtype=np.uint8).reshape(3, 4) * 20, np.ones((5, 5), np.uint8))
    X = descriptors.Pixels(3, 4).compute(image)
    np.testing.assert_allclose(X * 255, np.arange(12).reshape(3, 4) * 20, rtol=1e-6)


@pytest.mark.parametrize("shape", [(300, 400), (1, 120_000), (120_000, 1)])
def test_sift_looks_at_no_more_pixels_than_memory_has_room_for(monkeypatch, shape):
    seen = []

    class Watched:
        def detectAndCompute(self, image, mask):
            seen.append(image.shape)
            return (), None

    monkeypatch.setattr(kinds, "SIFT_PIXELS", 30_000)
    monkeypatch.setattr(cv2, "SIFT_create", lambda nfeatures: Watched())
    descriptors.sift(np.zeros(shape, np.uint8))
    assert 0.9 * 30_000 < math.prod(seen[0]) <= 30_000
    descriptors.sift(np.zeros((100, 300), np.uint8))
    assert seen[1] == (100, 300)


def test_codebook_learns_the_centres_of_sift(folder):
    seen = []
    book = descriptors.learn_codebook(folder, 8, rng=0, progress=lambda what, *at: seen.append(at))
    assert book.shape == (8, 128)
    assert book.dtype == np.float32
    np.testing.assert_array_equal(book, descriptors.learn_codebook(folder, 8, rng=0))
    assert seen == sorted(seen)
    assert seen[-1] == (19, 19)  # nine files, ten rounds of k-means
    local = np.concatenate([descriptors.sift(image) for _, image in datasets.images(folder)])
    errors = [np.square(local[:, None] - b).sum(axis=2).min(axis=1).mean() for b in (book, local[:8])]
    assert errors[0] < errors[1]
    with pytest.raises(InvalidInputError, match="Give more images"):
        descriptors.learn_codebook(folder, 100_000)


def test_describe_names_what_it_skips(folder, codebook):
    result = descriptors.describe(folder, descriptors.Vlad(codebook))
    assert [path.name for path in result.paths] == [f"{i}.png" for i in range(7)]
    assert [(s.path.name, s.reason) for s in result.skipped] == [
        ("3 broken.jpg", "not an image of a known kind"),
        ("5 flat.png", "no local features"),
    ]
    for i, X in enumerate(result.X):
        np.testing.assert_array_equal(X, descriptors.Vlad(codebook).compute(scene(i)))


def test_cached_result_is_equal_mapped_and_reused(folder, codebook, tmp_path, monkeypatch):
    descriptor = descriptors.Vlad(codebook)
    plain = descriptors.describe(folder, descriptor)
    first = descriptors.describe(folder, descriptor, cache=tmp_path / "cache")
    assert isinstance(first.X, np.memmap)
    monkeypatch.setattr(folder_module, "read_gray", None)  # a second run must not read any image
    seen = []
    again = descriptors.describe(
        folder, descriptor, cache=tmp_path / "cache", progress=lambda what, *at: seen.append(at)
    )
    assert seen == [(9, 9)]
    for result in (first, again):
        np.testing.assert_array_equal(result.X, plain.X)
        assert result.paths == plain.paths
        assert result.skipped == plain.skipped
    assert len(list((tmp_path / "cache").iterdir())) == 2


def count_reads(monkeypatch):
    calls = []
    read = folder_module.read_gray

    def counted(path, max_side):
        calls.append(path.name)
        return read(path, max_side)

    monkeypatch.setattr(folder_module, "read_gray", counted)
    return calls


def test_an_interrupted_run_goes_on_where_it_stopped(folder, codebook, tmp_path, monkeypatch):
    def interrupt(what, done, total):
        if done == 4:
            raise KeyboardInterrupt

    descriptor, cache = descriptors.Vlad(codebook), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        descriptors.describe(folder, descriptor, cache=cache, progress=interrupt)
    calls, seen = count_reads(monkeypatch), []
    result = descriptors.describe(folder, descriptor, cache=cache, progress=lambda what, *at: seen.append(at))
    assert len(calls) == 5
    assert seen == [(4, 9), (6, 9), (8, 9), (9, 9)]
    np.testing.assert_array_equal(result.X, descriptors.describe(folder, descriptor).X)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_part_is_computed_again(folder, codebook, tmp_path, monkeypatch, damage):
    def interrupt(what, done, total):
        if done == 4:
            raise KeyboardInterrupt

    descriptor, cache = descriptors.Vlad(codebook), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        descriptors.describe(folder, descriptor, cache=cache, progress=interrupt)
    part = sorted(cache.glob("*.parts/*.npz"))[0]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(bytes(content) if damage is None else damage)
    calls = count_reads(monkeypatch)
    result = descriptors.describe(folder, descriptor, cache=cache)
    assert len(calls) == 7
    np.testing.assert_array_equal(result.X, descriptors.describe(folder, descriptor).X)


def test_every_ingredient_changes_the_key(folder, codebook, tmp_path):
    cache = tmp_path / "cache"

    def results():
        return len(list(cache.glob("*.npy")))

    for expected, (source, descriptor, options) in enumerate(
        [
            (folder, descriptors.Vlad(codebook), {}),
            (folder, descriptors.Vlad(codebook + 1), {}),
            (folder, descriptors.Vlad(codebook, power=0.5), {}),
            (folder, descriptors.Vlad(codebook, n_features=9), {}),
            (folder, descriptors.Vlad(codebook), {"dtype": np.float16}),
            (datasets.images(folder, max_side=50), descriptors.Vlad(codebook), {}),
            (folder, descriptors.Pixels(), {}),
        ],
        1,
    ):
        descriptors.describe(source, descriptor, cache=cache, **options)
        assert results() == expected
    cv2.imwrite(str(folder / "0.png"), scene(99))
    fresh = descriptors.describe(folder, descriptors.Pixels(), cache=cache)
    assert results() == 8
    np.testing.assert_array_equal(fresh.X[0], descriptors.Pixels().compute(scene(99)))


def test_half_precision(folder, codebook):
    X = descriptors.describe(folder, descriptors.Vlad(codebook), dtype=np.float16).X
    assert X.dtype == np.float16
    np.testing.assert_allclose(
        X, descriptors.describe(folder, descriptors.Vlad(codebook)).X, rtol=1e-3, atol=1e-7
    )


def test_several_processes_give_the_same(folder, codebook, tmp_path):
    descriptor, seen = descriptors.Vlad(codebook), []
    one = descriptors.describe(folder, descriptor)
    two = descriptors.describe(
        folder, descriptor, n_jobs=2, cache=tmp_path / "cache", progress=lambda what, *at: seen.append(at)
    )
    np.testing.assert_array_equal(one.X, two.X)
    assert one.paths == two.paths
    assert one.skipped == two.skipped
    assert seen == [(2, 9), (4, 9), (6, 9), (8, 9), (9, 9)]


class DyingPool:
    """Stands in for a pool whose worker was killed, as the kernel does when memory runs out."""

    def __init__(self, *args, **options):
        pass

    def map(self, task, groups):
        yield task(groups[0])
        raise BrokenProcessPool

    def shutdown(self, **options):
        pass


def test_a_dead_worker_is_explained(folder, monkeypatch):
    monkeypatch.setattr(folder_module, "ProcessPoolExecutor", DyingPool)
    with pytest.raises(BilshError, match=r"A worker process died.*n_jobs=1"):
        descriptors.describe(folder, descriptors.Pixels(), n_jobs=2)


def test_a_folder_without_any_good_image(tmp_path):
    (tmp_path / "a.png").write_bytes(b"bad")
    for cache in (None, tmp_path / "cache"):
        result = descriptors.describe(tmp_path, descriptors.Hog(16), cache=cache)
        assert result.X.shape == (0, 1, 36)
        assert len(result.skipped) == 1


def test_too_little_disk_is_said_before_the_work(folder, tmp_path, monkeypatch):
    @dataclass
    class Usage:
        free: int = 1000

    monkeypatch.setattr(folder_module.shutil, "disk_usage", lambda path: Usage())
    with pytest.raises(OSError, match=r"0.0 GB free, 9 images need .* GB\. Free some space"):
        descriptors.describe(folder, descriptors.Pixels(), cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: descriptors.Vlad(np.zeros((5, 64))), r"shape \(c, 128\)"),
        (lambda f: descriptors.Vlad(np.full((5, 128), np.nan)), "finite"),
        (lambda f: descriptors.Vlad(np.zeros((5, 128)), matrix_shape=(5, 127)), "does not hold"),
        (lambda f: descriptors.Vlad(np.zeros((5, 128)), power=0), "power"),
        (lambda f: descriptors.vlad(np.zeros((5, 3)), np.zeros((5, 4))), "share d"),
        (lambda f: descriptors.Hog(20), "multiple of 8"),
        (lambda f: descriptors.Pixels(0, 3), "1 x 1"),
        (lambda f: descriptors.describe(f, descriptors.Pixels(), n_jobs=0), "at least 1 process"),
        (lambda f: descriptors.describe(f, descriptors.Pixels(), dtype=np.int8), "float32 or float16"),
        (lambda f: descriptors.learn_codebook(f, 0), "n_centers"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(call, message, folder):
    with pytest.raises(InvalidInputError, match=message):
        call(folder)


def test_missing_opencv_is_named(codebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingPackageError, match=r"SIFT needs the package opencv-python-headless"):
        descriptors.Vlad(codebook).compute(np.zeros((40, 40), np.uint8))


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("exponent", [-1000, -500, -100, 100, 500, 1000])
def test_vlad_does_not_depend_on_the_scale(power, exponent):
    rng = np.random.default_rng(0)
    local, centres = rng.normal(size=(40, 6)), rng.normal(size=(5, 6))
    found = descriptors.vlad(np.ldexp(local, exponent), np.ldexp(centres, exponent), power)
    np.testing.assert_array_equal(found, descriptors.vlad(local, centres, power))
    assert np.linalg.norm(found) == pytest.approx(1, rel=1e-6)


def test_vlad_of_tiny_residuals_has_unit_length():
    found = descriptors.vlad([[0.0, 3e-200]], [[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(found, [[0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("local", "codebook", "power", "message"),
    [
        ([[np.nan, 0.0]], [[0.0, 1.0]], 1.0, "NaN or inf"),
        ([[1.0, 0.0]], [[0.0, np.inf]], 1.0, "NaN or inf"),
        ([[1.0, 0.0]], np.empty((0, 2)), 1.0, "c, d >= 1"),
        ([[1.0, 0.0]], [[0.0, 1.0]], 0.0, "power must be > 0"),
        ([[1.0, 0.0]], [[0.0, 1.0]], -0.5, "power must be > 0"),
        ([[1.0, 0.0]], [[0.0, 1.0]], 2.0, "<= 1"),
    ],
)
def test_vlad_refuses_what_has_no_direction(local, codebook, power, message):
    with pytest.raises(InvalidInputError, match=message):
        descriptors.vlad(local, codebook, power)
