"""What an installation must be able to do, with nothing but itself: run ``python tests/smoke.py`` anywhere."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bilsh
from bilsh import _native


def main() -> None:
    """Encode, keep, search, estimate; then the same by the command."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8, 8))
    encoder = bilsh.KernelEncoder(n_bits=256, random_state=0).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with bilsh.Store.create(path, encoder) as store:
            store.add(X)
        hits = bilsh.Store.open(path).search(X[:3] + 0.01, k=2)
        if hits.ids[:, 0].tolist() != [0, 1, 2] or hits.interval is None:
            raise SystemExit(f"items do not find themselves: {hits}")
        np.save(Path(folder) / "q.npy", X[:1])
        command = [sys.executable, "-m", "bilsh.cli", "search", str(path), "--query", f"{folder}/q.npy"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode or "95 %" not in answer.stdout:
            raise SystemExit(answer.stdout + answer.stderr)
    print(f"bilsh {bilsh.__version__}, Python {sys.version.split()[0]}, level {_native.level()}: works")


if __name__ == "__main__":
    main()
