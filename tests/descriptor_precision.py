"""What descriptors find at rank 1: the table of docs/accuracy.md. Photographs and MNIST lie in the folder BILSH_DATA.

`python tests/descriptor_precision.py` prints it. Copies of photographs look for their originals; pictures of shapes and
digits look for one of their kind among the others.
"""

import os
import time
from pathlib import Path

import cv2
import numpy as np

from bilsh import datasets
from bilsh.descriptors import Hog, HogColor, Pixels, Vlad, sift

DATA = Path(os.environ.get("BILSH_DATA") or "data")
KINDS = 18


def shape(number):
    """Draw one of six outlines with one of three fillings, of random colour, place, size and clutter."""
    rng = np.random.default_rng(number)
    outline, filling = number % 6, number // 6 % 3
    image = np.empty((160, 160, 3), np.uint8)
    image[:] = rng.integers(0, 256, 3)
    for _ in range(6):
        at = [int(v) for v in rng.integers(0, 160, 2)]
        cv2.circle(image, at, int(rng.integers(3, 14)), [int(v) for v in rng.integers(0, 256, 3)], -1)
    centre, radius, turn = 80 + rng.integers(-18, 19, 2), int(rng.integers(34, 56)), rng.uniform(-0.25, 0.25)
    mask = np.zeros(image.shape[:2], np.uint8)
    if outline in (0, 5):
        axes = (radius, radius if outline == 0 else radius // 2)
        cv2.ellipse(mask, [int(v) for v in centre], axes, float(np.degrees(turn)), 0, 360, 255, -1)
    else:
        corners = {1: 3, 2: 4, 3: 5, 4: 10}[outline]
        angles = turn + np.arange(corners) * 2 * np.pi / corners
        far = radius * np.where(np.arange(corners) % 2, 0.45, 1.0) if outline == 4 else radius
        points = np.stack([centre[0] + far * np.cos(angles), centre[1] + far * np.sin(angles)], axis=1)
        cv2.fillPoly(mask, [points.astype(np.int32)], 255)
    color = rng.integers(0, 256, 3)
    y, x = np.indices(mask.shape) // 8
    other = (np.zeros_like(x), x % 2, (x + y) % 2)[filling][..., None]
    image = np.where(mask[..., None] > 0, np.where(other > 0, 255 - color, color), image)
    return np.clip(image + rng.normal(0, 8, image.shape), 0, 255).astype(np.uint8)


def half(image):
    return cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def middle(image):
    h, w = image.shape[:2]
    return image[h // 10 : h - h // 10, w // 10 : w - w // 10]


def corner(image):
    h, w = image.shape[:2]
    return image[: int(0.7 * h), : int(0.7 * w)]


def codebook(pictures, centres):
    from sklearn.cluster import MiniBatchKMeans

    local = np.concatenate([sift(cv2.cvtColor(p, cv2.COLOR_BGR2GRAY))[:300] for p in pictures])
    means = MiniBatchKMeans(centres, batch_size=4096, n_init=1, random_state=0).fit(local)
    return means.cluster_centers_.astype(np.float32)


def described(descriptor, pictures):
    """Rows of numbers; zeros where a picture shows nothing to describe."""
    color = getattr(descriptor, "color", False)
    change = cv2.COLOR_BGR2RGB if color else cv2.COLOR_BGR2GRAY
    rows = np.zeros((len(pictures), int(np.prod(descriptor.shape))), np.float32)
    for row, picture in zip(rows, pictures, strict=True):
        found = descriptor.compute(cv2.cvtColor(picture, change))
        row[:] = 0 if found is None else found.ravel()
    return rows


def nearest(Q, X, own=False):
    squares = np.square(X).sum(axis=1) - 2 * Q @ X.T
    if own:
        np.fill_diagonal(squares, np.inf)
    return squares.argmin(axis=1)


PLAIN = {"hog-color": HogColor(), "hog, side 64": Hog(64), "hog, side 128": Hog(), "pixels": Pixels()}


def measured(vlad=True):
    """Names of descriptors, their numbers, milliseconds, and precisions; those of VLAD take minutes."""
    cv2.setNumThreads(1)
    paths = datasets.images(DATA / "flickr").paths
    photographs = [cv2.imread(str(path)) for path in paths[:500]]
    queries = np.arange(0, 500, 5)
    mnist = datasets.mnist(DATA / "mnist")
    some = np.random.default_rng(0).permutation(len(mnist.X))[:400]
    digits = [cv2.cvtColor(mnist.X[i], cv2.COLOR_GRAY2BGR) for i in some]
    shapes, kinds = [shape(i) for i in range(360)], np.arange(360) % KINDS
    others = [cv2.imread(str(path)) for path in paths[2000:4000:20]]
    rows = [(name, kind, kind, kind) for name, kind in PLAIN.items()]
    for centres in (64, 500) if vlad else ():
        large = np.load(DATA / "vlad_codebook500.npy")
        books = large if centres == 500 else codebook(others, 64), codebook(shapes, centres)
        rows.append((f"vlad, {centres} centres", *map(Vlad, books), Vlad(codebook(digits, centres))))
    for name, *kind in rows:
        start = time.process_time()
        X = described(kind[0], photographs)
        cost = 1e3 * (time.process_time() - start) / len(X)
        told = [
            (nearest(described(kind[0], [copy(photographs[i]) for i in queries]), X) == queries).mean()
            for copy in (half, middle, corner)
        ]
        for descriptor, pictures, labels in ((kind[1], shapes, kinds), (kind[2], digits, mnist.labels[some])):
            Z = described(descriptor, pictures)
            told.append((labels[nearest(Z, Z, own=True)] == labels).mean())
        yield name, X.shape[1], cost, told


def main():
    for name, numbers, cost, told in measured():
        print(f"| {name} | {numbers:,} | {cost:.1f} | {' | '.join(f'{t:.2f}' for t in told)} |", flush=True)


if __name__ == "__main__":
    main()
