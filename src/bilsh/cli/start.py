"""Where the program starts, and where an error that nobody foresaw ends."""

from __future__ import annotations

import sys

from bilsh.cli import show
from bilsh.cli.commands import app
from bilsh.cli.program import FAILED, INTERRUPTED


def main() -> None:
    """Run the program and exit."""
    try:
        app(prog_name="bilsh")
    except KeyboardInterrupt:
        # Before any command began.
        sys.exit(INTERRUPTED)
    except Exception as error:
        if show.switches.debug:
            raise
        show.complain(f"{type(error).__name__}: {error} (this should not happen; --debug shows where).")
        sys.exit(FAILED)
