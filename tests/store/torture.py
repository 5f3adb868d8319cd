"""The store's tests at full counts, again and again with new seeds, for some hours.

Usage: torture.py HOURS [LOG]; `make torture HOURS=8`. Every round's seed and outcome are printed and kept in LOG,
by default torture.log. A round that failed is repeated with BILSH_TORTURE=1 BILSH_SEED=<seed> and the command shown.
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = (
    ("kills", ["test_kill.py"]),
    ("threads", ["test_threads.py"]),
    ("backups", ["test_backup.py"]),
    ("readers", ["test_readers.py"]),
    ("fuzz", ["test_fuzz.py"]),
    ("power", ["test_power_loss.py", "test_io_errors.py"]),
    ("damage", ["test_damage.py", "test_recipe.py", "test_guards.py", "test_writers.py"]),
)


def main(hours, log):
    here, end, failures, number = Path(__file__).parent, time.time() + 3600 * hours, 0, 0
    while time.time() < end:
        name, files = ROUNDS[number % len(ROUNDS)]
        number += 1
        seed = secrets.randbelow(2**31)
        places = [str(here / file) for file in files]
        command = [sys.executable, "-m", "pytest", "-q", "-s", f"--hypothesis-seed={seed}", *places]
        # A thousand kills at a time, so that every kind of round has its turn.
        kills = os.environ.get("BILSH_KILLS", "1000")
        settings = {"BILSH_TORTURE": "1", "BILSH_SEED": str(seed), "BILSH_KILLS": kills}
        start = time.time()
        run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        line = f"{time.strftime('%F %T')} {name} seed {seed} {time.time() - start:.0f} s "
        line += "ok" if run.returncode == 0 else "FAILED " + " ".join(command)
        print(line, flush=True)
        with log.open("a") as file:
            file.write(line + "\n" + (run.stdout + run.stderr if run.returncode else ""))
        failures += run.returncode != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "torture.log")))
