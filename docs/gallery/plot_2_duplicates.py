"""
Near-duplicate groups
=====================

Copies of an item, shifted or with noise, have codes that differ in few bits. A radius search finds them; groups are
stars around one item, so that no chain of look-alikes joins what is different.
"""

# %%
# Digits, and noisy copies of a hundred of them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import bilsh

rng = np.random.default_rng(0)
digits = load_digits().images
originals = rng.choice(len(digits), 100, replace=False)
copies = np.clip(digits[originals] + rng.normal(scale=0.3, size=(100, 8, 8)), 0, 16)
X = np.concatenate([digits, copies])

# %%
# How far may a copy be? As far as the nearest other digit of one digit in twenty.
encoder = bilsh.KernelEncoder(n_bits=1024, random_state=0).fit(digits)
codes = encoder.transform(X)
index = bilsh.Index(codes, encoder)
plain = bilsh.Index(codes[: len(digits)], encoder)
nearest = plain.search(ids=np.arange(len(digits)), k=1, mode="hamming").distances[:, 0]
radius = int(np.quantile(nearest, 0.05))
matches = index.search(codes=codes[len(digits) :], radius=radius)

found = [original in ids for original, ids in zip(originals, matches.ids, strict=True)]
print(f"within {radius} bits: {np.mean(found):.0%} of the copies find their original")

# %%
# Stars: an item and all within the radius of it.
fig, axes = plt.subplots(3, 4, figsize=(7, 5.4))
for row, copy in zip(axes, range(3), strict=True):
    row[0].imshow(X[len(digits) + copy], cmap="gray_r")
    row[0].set_title("a copy", fontsize=9)
    others = [hit for hit in matches.hits(copy) if hit.id != len(digits) + copy][:3]
    for ax, hit in zip(row[1:], others, strict=False):
        ax.imshow(X[hit.id], cmap="gray_r")
        ax.set_title(f"{hit.distance} bits, kernel {hit.similarity:.2f}", fontsize=9)
for ax in axes.flat:
    ax.axis("off")
fig.tight_layout()
