"""What a result was measured on: processor, instruction set, versions and commit; never a host name or a path."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from bilsh import _native

PACKAGES = ("bilsh", "numpy", "scipy", "scikit-learn", "faiss-cpu", "usearch", "numkong", "matplotlib")


def describe() -> dict[str, Any]:
    """Everything a reader needs to place the numbers."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "instruction_set": _native.level(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "blas": sorted(
            {f"{p['internal_api']} {p['version']}" for p in threadpool_info() if p["user_api"] == "blas"}
        ),
        "versions": {name: _version(name) for name in PACKAGES},
    }


WAYS = {
    "portable": "words of eight bytes, one row after the other",
    "neon": "16 bytes counted at once, one row after the other",
    "popcnt": "an instruction that counts words, one row after the other",
    "avx2": "one query: carry-save adders, short rows by look-ups; some: half bytes of 32 rows side by side; "
    "from 12 on: 256 rows by bit",
    "avx512bw": "one query: 64 bytes looked up at once, rows as they lie; some: four bytes of 16 rows side by side, "
    "carry-save adders; from 24 on: 512 rows by bit",
    "avx512": "one query: 64 bytes counted at once, rows as they lie; some: four bytes of 16 rows side by side; "
    "from 24 on: 512 rows by bit",
    "amx": "as avx512, and from 128 queries on products of matrices on tile registers",
}
"""How each instruction set scans."""


def told() -> dict[str, Any]:
    """What the library runs on here and how it works there."""
    level = _native.level()
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "cache_bytes": caches(),
        "instruction_sets": _native.levels(),
        "instruction_set": level,
        "chosen": "the widest that the processor says it has; no maker's name and no measurement decides, for rows are "
        "read as they lie, which every processor met so far does well",
        "to_override": f"BILSH_LEVEL={_native.levels()[0]} in the environment, or another of instruction_sets",
        "scans": WAYS[level],
        "results": folder_name(),
    }


def caches() -> dict[str, int]:
    """Bytes of the caches that hold data, by level, as far as the system tells."""
    units = {"K": 1 << 10, "M": 1 << 20}
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"level {level}"] = int(size.rstrip("KM")) * units.get(size[-1], 1)
    return found


def processor() -> str:
    """Name of the processor's model, and its family: under a virtual machine many generations have one name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    family = f" family {said['cpu family']}" if "cpu family" in said else ""
    return said.get("model name", platform.machine()) + family


def folder_name() -> str:
    """Name of the processor and its instruction set as a folder's name.

    Examples
    --------
    >>> folder_of("Intel(R) Xeon(R) Processor family 6", "amx")
    'intel-xeon-processor-family-6-amx'
    """
    return folder_of(processor(), _native.level())


def folder_of(processor: str, instruction_set: str) -> str:
    """Return the folder's name for a processor."""
    words = re.sub(r"\((?:R|TM)\)", " ", f"{processor} {instruction_set}").lower()
    return "-".join(re.findall(r"[a-z0-9]+", words))


def commit() -> str:
    """Commit of the working copy that this file belongs to, or the release when it was installed from a package."""
    git, here = shutil.which("git"), Path(__file__).resolve()
    release = f"release {version('bilsh')}"
    if git is None:
        return release
    # Fixed arguments, no shell: nothing of a user's input gets in.
    tracked = [git, "-C", str(here.parent), "ls-files", "--error-unmatch", here.name]
    if subprocess.run(tracked, capture_output=True, check=False).returncode:  # noqa: S603
        return release
    describe = [git, "-C", str(here.parent), "describe", "--always", "--dirty", "--exclude", "*"]
    answer = subprocess.run(describe, capture_output=True, check=False, text=True)  # noqa: S603
    return answer.stdout.strip() or release


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
