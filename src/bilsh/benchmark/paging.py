"""What the page costs: an answer of the server, a query from outside, and what the browser adds.

Each is the 95th percentile over random items of a store of 4,046 x 16,384 bits that keeps its vectors. The browser's
share needs Playwright and chromium (`make test-browser` installs them) and is left out without.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import bilsh
from bilsh.benchmark import targets
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race
from bilsh.viewer.uploads import read_upload
from bilsh.workflows.collection import Collection
from bilsh.workflows.looking import Asking, neighbours

CHROMIUM = os.environ.get("BILSH_CHROMIUM", "/usr/bin/chromium")
SHAPE = (76, 12)

_SHOW = """async (row) => {
  const start = performance.now();
  history.pushState(null, "", `/?item=${row}`);
  dispatchEvent(new PopStateEvent("popstate"));
  const name = () => document.querySelector(".who strong")?.textContent;
  const there = () => name() === String(row) && !document.querySelector(".main.loading");
  await new Promise((done) => {
    const look = () => there() && (watch.disconnect(), done());
    const watch = new MutationObserver(look);
    watch.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
  });
  const total = performance.now() - start;
  const entries = performance.getEntriesByType("resource");
  const asked = entries.filter((entry) => entry.name.includes("/neighbours?")).pop();
  performance.clearResourceTimings();
  return total - (asked.responseEnd - asked.startTime);
}"""

_SLIDE = """async (at) => {
  const slider = document.querySelector("input[type=range]");
  const before = document.querySelector("h1").textContent;
  const start = performance.now();
  slider.value = at;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => {
    const look = () => document.querySelector("h1").textContent !== before && (watch.disconnect(), done());
    const watch = new MutationObserver(look);
    watch.observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  return performance.now() - start;
}"""


def checks(size: Size, directory: Path) -> Iterator[tuple[Race, Check]]:
    """Measure in a folder of its own below `directory`, which is gone afterwards."""
    small = size.name.startswith("smoke")
    rows, bits, times = (300, 256, 10) if small else (4046, 16_384, 200)
    clock = time.process_time if size.clock == "cpu" else time.perf_counter
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((64, *SHAPE), dtype=np.float32)
    X = centres[rng.integers(64, size=rows)] + 0.5 * rng.standard_normal((rows, *SHAPE), dtype=np.float32)
    asked = [int(row) for row in rng.integers(rows, size=times)]
    case = f"{rows:,} x {bits:,} bits, {times} items"
    with tempfile.TemporaryDirectory(dir=directory) as where:
        place = Path(where) / "store"
        with bilsh.Store.create(
            place, bilsh.KernelEncoder(bits, random_state=0).fit(X), keep_vectors="float32"
        ) as store:
            store.add(X)
        items = Collection(place)
        answer = _answers(items, [Asking(row=row) for row in asked], clock)
        yield _check(case, targets.ANSWER, answer)
        yield _check(case, targets.UPLOAD, _uploads(items, X, asked, clock))
        for against, value in _browser(place, asked, len(items.ladder), by_processor=size.clock == "cpu"):
            yield _check(case, against, value)


def _check(case: str, against: str, value: float) -> tuple[Race, Check]:
    where = Race(targets.PAGE, case, 1)
    return where, targets.check(where, against, value, float("nan"))


def _p95(times: list[float]) -> float:
    return float(np.quantile(times, 0.95))


def _answers(items: Collection, questions: list[Asking], clock: Callable[[], float]) -> float:
    """Milliseconds of one answer, as the server makes it: neighbours at all lengths, as JSON."""
    neighbours(items, questions[0])  # what is prepared once is prepared
    times = []
    for question in questions:
        start = clock()
        json.dumps(neighbours(items, question)).encode()
        times.append(1e3 * (clock() - start))
    return _p95(times)


def _uploads(items: Collection, X: Any, rows: list[int], clock: Callable[[], float]) -> float:
    """Milliseconds from the bytes of a dropped .npy to its neighbours."""
    times = []
    for row in rows:
        buffer = io.BytesIO()
        np.save(buffer, X[row])
        start = clock()
        upload = read_upload(buffer.getvalue(), "q.npy", items)
        json.dumps(neighbours(items, Asking(vector=upload.vector, name="q"))).encode()
        times.append(1e3 * (clock() - start))
    return _p95(times)


def _browser(
    place: Path, rows: list[int], lengths: int, *, by_processor: bool
) -> Iterator[tuple[str, float]]:
    """Milliseconds that the browser adds to an answer, and of the slider, which asks nobody."""
    if find_spec("playwright") is None or not Path(CHROMIUM).exists():
        return
    with _page(place) as page:
        clock = page.context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})

        def run(script: str, argument: int) -> float:
            before = _worked(clock)
            told = float(page.evaluate(script, argument))
            return _worked(clock) - before if by_processor else told

        run(_SHOW, rows[0])
        yield targets.SHOWN, _p95([run(_SHOW, row) for row in _changing(rows)])
        steps = [number % lengths for number in range(len(rows))]
        yield targets.SLIDER, _p95([run(_SLIDE, step) for step in steps])


def _worked(clock: Any) -> float:
    """Milliseconds that the page's main thread has worked."""
    found = {entry["name"]: entry["value"] for entry in clock.send("Performance.getMetrics")["metrics"]}
    return 1e3 * float(found["TaskDuration"])


def _changing(rows: list[int]) -> list[int]:
    """Rows without those asked for just before, whose answers the page remembers."""
    return list(dict.fromkeys(rows[1:]))


@contextmanager
def _page(place: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-P", "-m", "bilsh.cli", "view", str(place), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as play:  # noqa: S603
        try:
            found = re.search(r"http\S+", (server.stdout or io.StringIO()).readline())
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page()
            page.goto(found.group(0) if found else "")
            page.locator(".hit-tile strong").first.wait_for(timeout=120_000)
            yield page
            browser.close()
        finally:
            server.terminate()
