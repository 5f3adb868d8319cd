"""
Image search by VLAD
====================

Parts of two photographs find the parts that overlap them. SIFT describes points of a picture, VLAD sums them up to a
matrix, a bilinear code of a thousand bits keeps what counts.
"""

# %%
# Sixty-four overlapping parts of each of two photographs that scikit-learn brings along, as a folder of images.
import tempfile
from pathlib import Path

import cv2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

import bilsh
from bilsh.descriptors import Vlad, learn_codebook

photographs = load_sample_images().images
parts, places = [], []
for number, photograph in enumerate(photographs):
    for y in np.linspace(0, photograph.shape[0] - 213, 8).astype(int):
        for x in np.linspace(0, photograph.shape[1] - 213, 8).astype(int):
            parts.append(np.ascontiguousarray(photograph[y : y + 213, x : x + 213]))
            places.append((number, y, x))
places = np.array(places)
gray = [cv2.cvtColor(part, cv2.COLOR_RGB2GRAY) for part in parts]
folder = tempfile.TemporaryDirectory()
for number, image in enumerate(gray):
    cv2.imwrite(str(Path(folder.name) / f"{number:03}.png"), image)

# %%
# A codebook of 32 centres, learned from the folder; each part becomes a matrix of 16 x 256.
vlad = Vlad(learn_codebook(folder.name, 32, rng=0))
X = np.array([vlad.compute(image) for image in gray])
print(X.shape)

# %%
# Codes of 1,024 bits, searched by the descriptors of three parts; an item is not among its own neighbours.
encoder = bilsh.AngleEncoder(n_bits=1024, random_state=0).fit(X)
index = bilsh.Index(encoder.transform(X), encoder, vectors=X)
asked = [9, 44, 100]
hits = index.search(ids=asked, k=4)

fig, axes = plt.subplots(3, 5, figsize=(9, 6))
for row, query in zip(axes, asked, strict=True):
    row[0].imshow(parts[query])
    row[0].set_ylabel("asked for")
for row, found in zip(axes, hits, strict=True):
    for ax, hit in zip(row[1:], found, strict=True):
        ax.imshow(parts[hit.id])
        ax.set_title(
            f"cosine {hit.similarity:.2f}\n{hit.interval[0]:.2f} to {hit.interval[1]:.2f}", fontsize=9
        )
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
fig.tight_layout()

# %%
# How many of the best hits come from the same photograph?
same = places[index.search(ids=np.arange(len(X)), k=1).ids[:, 0], 0] == places[:, 0]
print(f"{same.mean():.0%} of the nearest parts are from the same photograph")
folder.cleanup()
