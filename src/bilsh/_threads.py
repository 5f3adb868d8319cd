"""How many threads n_jobs means."""

import sys


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that n_jobs means, as in scikit-learn; joblib is asked only if it must be."""
    if "joblib" not in sys.modules and (n_jobs is None or n_jobs > 0):
        return n_jobs or 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
