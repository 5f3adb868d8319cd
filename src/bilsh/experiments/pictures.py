"""Generated pictures for the offline experiments: scenes of shapes and textures with enough corners for SIFT."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import optional

N_PICTURES = 400
"""Enough for near-duplicate retrieval to be a question, few enough for seconds."""

SIDE = 160


def draw_picture(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw one scene: a shaded ground, some twenty shapes, strokes, and film grain."""
    cv2 = optional("cv2", "Drawing pictures")
    slope = np.linspace(0, 1, SIDE)
    image = 60 + 120 * np.abs(rng.random() - slope[:, None] * slope[None, :])
    image = np.ascontiguousarray(image, dtype=np.uint8)
    for _ in range(int(rng.integers(12, 24))):
        centre = rng.integers(0, SIDE, 2)
        gray, size = int(rng.integers(0, 256)), int(rng.integers(5, 30))
        if rng.random() < 0.5:
            corners = centre + rng.integers(-size, size + 1, (int(rng.integers(3, 7)), 2))
            cv2.fillPoly(image, [corners.astype(np.int32)], gray)
        else:
            axes, turn = rng.integers(2, size + 1, 2), float(rng.integers(0, 180))
            cv2.ellipse(image, centre.tolist(), axes.tolist(), turn, 0, 360, gray, -1)
        end = centre + rng.integers(-40, 41, 2)
        cv2.line(image, centre.tolist(), end.tolist(), 255 - gray, int(rng.integers(1, 3)))
    grain = rng.normal(0, 3, image.shape)
    return np.clip(image + grain, 0, 255).astype(np.uint8)


def write_pictures(folder: Path, n: int, seed: int = 0) -> Path:
    """Write n generated pictures into a sub-folder named after their number and seed, once; return it.

    The folder appears under its name only when it is complete.
    """
    cv2 = optional("cv2", "Drawing pictures")
    target = folder / f"{n}-seed{seed}"
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder))
    try:
        for number, child in enumerate(np.random.SeedSequence(seed).spawn(n)):
            done, encoded = cv2.imencode(".png", draw_picture(np.random.default_rng(child)))
            if not done:
                raise OSError("OpenCV could not encode a PNG picture. Install opencv-python-headless anew.")
            (scratch / f"{number:04d}.png").write_bytes(encoded.tobytes())
        scratch.replace(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return target
