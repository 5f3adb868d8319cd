"""The compiled core's switchboard: which instruction set is in force."""

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
