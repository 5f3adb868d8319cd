"""The compiled core's switchboard: which instruction set is in force."""

import os
import subprocess
import sys

import pytest

from bilsh import _native


def test_best_level_is_in_force_and_each_can_be_forced():
    levels = _native.levels()
    assert levels[0] in ("portable", "neon")
    assert _native.level() == levels[-1]
    try:
        for name in levels:
            _native.force_level(name)
            assert _native.level() == name
    finally:
        _native.force_level("auto")
    assert _native.level() == levels[-1]


def test_unknown_level_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"auto.*got 'mmx'"):
        _native.force_level("mmx")


def started_with(level):
    """What a new process says that begins with a level."""
    asks = [sys.executable, "-c", "from bilsh import _native; print(_native.level())"]
    return subprocess.run(asks, env={**os.environ, "BILSH_LEVEL": level}, capture_output=True, text=True)


def test_the_environment_chooses_a_level():
    first = _native.levels()[0]
    assert started_with(first).stdout.strip() == first
    assert started_with("auto").stdout.strip() == _native.levels()[-1]
    refused = started_with("mmx")
    assert refused.returncode != 0
    assert "got 'mmx'" in refused.stderr
