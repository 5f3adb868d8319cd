"""How many threads n_jobs means."""

import sys
from numbers import Integral

from bilsh.errors import InvalidInputError, InvalidTypeError

MAX_THREADS = 1024
"""More threads than any machine has cores only cost memory; larger requests mean this many."""


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that n_jobs means, as in scikit-learn; joblib is asked only if it must be."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral)):
        raise InvalidTypeError(f"n_jobs must be an integer or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; use None or 1 for one thread, -1 for all cores.")
    if "joblib" not in sys.modules and (n_jobs is None or n_jobs > 0):
        return min(int(n_jobs or 1), MAX_THREADS)
    from joblib import effective_n_jobs

    return min(int(effective_n_jobs(n_jobs)), MAX_THREADS)
