"""The command line: parse, call, show. What it calls is in :mod:`bilsh.workflows`."""

import os

# Threads are what --jobs says. BLAS would start one per core on its own, and waiting for them takes longer than the
# small products of a query. Read when NumPy is loaded, so it stands before all other imports.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bilsh.cli.start import main

__all__ = ["main"]
