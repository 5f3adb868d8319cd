"""Promise 1: a call that returned survives the death of its process, whatever it was, beside busy readers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from makers import SEED, TORTURE


@pytest.mark.parametrize(("codes", "share"), [("signs", 1), ("learned", 5)])
def test_killed_writers_lose_nothing_they_acknowledged(tmp_path, codes, share):
    """Learned codes, whose cells are others, with a fifth of the kills."""
    kills = (int(os.environ.get("BILSH_KILLS", "10000")) if TORTURE else 20) // share
    script = Path(__file__).with_name("killer.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path / "store", str(kills), str(SEED), codes],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(f"seed {SEED}: {run.stdout}")
    result = json.loads(run.stdout)
    assert result["kills"] == kills
    assert result["acknowledged"] > kills
    assert result["reads"] > 0
