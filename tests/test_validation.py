"""What n_jobs may be, and what is no descriptor or code at all."""

import numpy as np
import pytest

from bilsh import Index, hamming
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.validation import MAX_THREADS, as_descriptors, thread_count


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, 1), (1, 1), (3, 3), (10**20, MAX_THREADS)])
def test_counts(n_jobs, threads):
    assert thread_count(n_jobs) == threads


def test_negative_numbers_count_cores():
    assert 1 <= thread_count(-(10**9)) <= thread_count(-1) <= MAX_THREADS


@pytest.mark.parametrize("n_jobs", [True, "2", 1.0])
def test_only_integers_are_counts(n_jobs):
    with pytest.raises(InvalidTypeError, match="n_jobs must be an integer or None"):
        thread_count(n_jobs)


def test_zero_threads_are_none():
    with pytest.raises(InvalidInputError, match="n_jobs must not be 0"):
        thread_count(0)


def test_masks_are_not_dropped_silently():
    codes = np.zeros((2, 4), np.uint8)
    masked = np.ma.masked_array(codes, mask=True)
    for call in (
        lambda: as_descriptors(masked.astype(float)),
        lambda: hamming(codes, masked),
        lambda: Index(masked),
    ):
        with pytest.raises(InvalidTypeError, match="is a masked array"):
            call()


@pytest.mark.parametrize("item", ["a", {"a": 1}])
def test_objects_that_are_no_numbers_are_refused(item):
    with pytest.raises((InvalidInputError, InvalidTypeError), match="X must hold real numbers"):
        as_descriptors(np.full((2, 2), item, dtype=object))
