"""
From Hamming distance to a calibrated similarity
================================================

A fraction of differing bits is a measurement of an angle. More bits measure better, and the interval says how well.
"""

# %%
# Two pairs of items with known cosines, measured with more and more bits.
import matplotlib.pyplot as plt
import numpy as np

import bilsh

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 64))
encoder = bilsh.AngleEncoder(n_bits=4096, projection="dense", random_state=0).fit(X)
centred = X - encoder.mean_
unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
near = 0.8 * unit[0] + 0.6 * (unit[1] - (unit[1] @ unit[0]) * unit[0]) / np.linalg.norm(
    unit[1] - (unit[1] @ unit[0]) * unit[0]
)
pairs = {0.8: (unit[0], near), float(unit[0] @ unit[2]): (unit[0], unit[2])}

lengths = 2 ** np.arange(5, 13)
fig, ax = plt.subplots(figsize=(7, 4))
for colour, (cosine, (x, y)) in zip(("#0072B2", "#D55E00"), pairs.items(), strict=True):
    codes = encoder.transform(np.stack([x, y]) + encoder.mean_)
    told = []
    for n_bits in lengths:
        short = encoder.truncated(int(n_bits))
        a, b = bilsh.prefix(codes, int(n_bits))
        told.append(bilsh.estimate(a, b, encoder=short, of="cosine"))
    low, high = np.array([np.asarray(t.interval).ravel() for t in told]).T
    ax.fill_between(lengths, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(lengths, [np.asarray(t.value).item() for t in told], "o-", color=colour)
    ax.axhline(cosine, color=colour, ls=":", lw=1)
    ax.annotate(
        f"true cosine {cosine:.2f}", (lengths[-1], cosine), (-4, 6), textcoords="offset points", ha="right"
    )
ax.set(
    xscale="log", xlabel="bits", ylabel="cosine", title="Intervals narrow like one over the root of the bits"
)
ax.set_xticks(lengths, [str(n) for n in lengths])
ax.minorticks_off()
fig.tight_layout()

# %%
# Hits of a search are chosen for looking near. Their intervals know that: at 64 bits the interval of the best hit
# reaches far below the naive one. See the page on intervals.
short = encoder.truncated(64)
hits = bilsh.Index(short.transform(X[1:]), short).search(X[:1], k=3)
print(hits)
