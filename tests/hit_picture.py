"""The picture of docs/intervals.md: best hits of some queries, with the interval of a pair and that of a hit.

    python tests/hit_picture.py docs/images/intervals.svg      # MNIST in BILSH_DATA; seconds

The first queries of the first encoder of the table, 64 bits, 20,000 items: none was chosen for what it shows.
"""

import argparse
from pathlib import Path

import numpy as np

import bilsh
from hit_coverage import ENCODERS, FIRST, load, split

N_BITS, N_ITEMS, N_QUERIES, SHOWN = 64, 20_000, 400, 20
WIDTH, TOP, STEP, LEFT, RIGHT = 720, 44, 18, 80, 20
PAIR, HIT, TRUTH = "#999", "#2a6fbb", "#c33"


def measured():
    """Exact angles (n,) of the best hits, and the intervals (n, 2) of pair and hit, in degrees."""
    stored, Q = split(load("MNIST"), N_ITEMS, FIRST, N_QUERIES)
    encoder = ENCODERS["angle"](N_BITS, 1000 * FIRST + N_BITS).fit(stored)
    codes, Q = encoder.transform(stored), Q[:SHOWN]
    hits = bilsh.Index(codes, encoder).search(Q, k=1, mode="hamming")
    pair = bilsh.estimate(encoder.transform(Q)[:, None], codes[hits.ids], encoder, of="angle")
    truth = np.array(
        [encoder.coder_.exact(one[None], stored[ids])[0] for one, ids in zip(Q, hits.ids, strict=True)]
    )
    told = truth[:, 0], pair.sampling_interval[:, 0], hits.estimate(of="angle").interval[:, 0]
    return [np.degrees(one) for one in told]


def drawn(truth, pair, hit):
    """The picture as SVG."""
    last = 10 * np.ceil(max(truth.max(), pair.max(), hit.max()) / 10)
    bottom = TOP + STEP * len(truth)

    def x(angle):
        return f"{LEFT + angle / last * (WIDTH - LEFT - RIGHT):.1f}"

    def bar(y, ends, colour):
        return f'<line x1="{x(ends[0])}" x2="{x(ends[1])}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="5"/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}" font-family="sans-serif" '
        'font-size="12">',
        f"<title>Best hits of {len(truth)} queries: exact angles, 95 % intervals of pairs and of hits</title>",
        f'<rect width="{WIDTH}" height="{bottom + 44}" fill="white"/>',
        f'<text x="{LEFT}" y="20">'
        f'<tspan fill="#666">grey: interval of a pair, holds {held(truth, pair).sum()} of {len(truth)}</tspan>'
        f'<tspan dx="18" fill="{HIT}">blue: interval of the hit, holds {held(truth, hit).sum()} of {len(truth)}</tspan>'
        f'<tspan dx="18" fill="{TRUTH}">dot: exact angle</tspan></text>',
    ]
    for tick in np.arange(0, last + 1, 10):
        parts.append(f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 12}" y2="{bottom}" stroke="#e8e8e8"/>')
        parts.append(
            f'<text x="{x(tick)}" y="{bottom + 18}" text-anchor="middle" fill="#555">{tick:.0f}°</text>'
        )
    for i in range(len(truth)):
        y = TOP + STEP * i
        parts += [
            f'<text x="10" y="{y + 4}">query {i + 1}</text>',
            bar(y - 3, pair[i], PAIR),
            bar(y + 3, hit[i], HIT),
        ]
        parts.append(f'<circle cx="{x(truth[i])}" cy="{y}" r="4" fill="{TRUTH}"/>')
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{bottom + 36}" text-anchor="end" fill="#555">angle to the best hit; '
        f"{N_BITS} bits, MNIST, {N_ITEMS:,} items</text></svg>\n"
    )
    return "\n".join(parts)


def held(truth, interval):
    """Which truths lie inside."""
    return (interval[:, 0] <= truth) & (truth <= interval[:, 1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.parse_args().output.write_text(drawn(*measured()), "utf-8")


if __name__ == "__main__":
    main()
