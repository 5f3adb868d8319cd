"""
How many bits for my data
=========================

Recall of the ten exact neighbours against the length of the code, measured on a sample: by Hamming distance, by
asymmetric queries, and re-ranked by exact distance.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import bilsh

X = load_digits().images
curve = bilsh.bits_curve(X, bits=(32, 64, 128, 256, 512), times=False)

# %%
# Solid: kernel codes; dashed: angle codes. Where the vectors are kept, 64 bits are enough.
colours = {"hamming": "#0072B2", "asymmetric": "#D55E00", "reranked": "#009E73"}
fig, ax = plt.subplots(figsize=(7, 4))
for kind, style in (("kernel", "-"), ("angle", "--")):
    points = [point for point in curve.points if point.encoder == kind]
    for by, colour in colours.items():
        recalls = [getattr(point.at_10, by) for point in points]
        ax.plot([point.n_bits for point in points], recalls, style, color=colour, marker="o", ms=4)
        if kind == "kernel":
            ax.annotate(
                by,
                (points[-1].n_bits, recalls[-1]),
                (6, 0),
                textcoords="offset points",
                color=colour,
                va="center",
            )
ax.set(
    xscale="log",
    xlabel="bits",
    ylabel="recall@10",
    ylim=(0, 1.03),
    title="Keep the vectors, and short codes find everything",
)
ax.set_xticks([32, 64, 128, 256, 512], ["32", "64", "128", "256", "512"])
ax.minorticks_off()
ax.margins(x=0.12)
fig.tight_layout()

# %%
# The shortest code that finds eight of ten without re-ranking:
short = curve.shortest(recall=0.8, by="asymmetric")
print(f"{short.encoder} codes of {short.n_bits} bits: recall@10 {short.at_10.asymmetric:.2f}")
