"""Small data, but all threads: the compiled core would leave them asleep."""

import pytest

from bilsh import _native


@pytest.fixture(autouse=True, scope="package")
def _all_threads_work():
    _native.set_least_share(0)
    yield
    _native.set_least_share(1e5)
