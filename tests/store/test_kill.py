"""Promise 1: a call that returned survives the death of its process."""

import json
import subprocess
import sys
from pathlib import Path

from makers import TORTURE


def test_killed_writers_lose_nothing_they_acknowledged(tmp_path):
    kills = 3000 if TORTURE else 20
    script = Path(__file__).with_name("killer.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path / "store", str(kills), "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["kills"] == kills
    assert result["acknowledged"] > kills
