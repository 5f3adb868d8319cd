"""Command line: python -m bilsh.experiments FIGURE|all [--quick|--full] [--output DIR] ..."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bilsh.errors import BilshError
from bilsh.experiments.figures import add_options, explain, reproduce


class Progress:
    """Messages on stderr with the time since the start; on a terminal "..." messages are overwritten."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._pending = False

    def __call__(self, message: str) -> None:
        """Show one message."""
        passing = message.endswith("...") or message.startswith("describing")
        if passing and not sys.stderr.isatty():
            return
        lead = "\r\033[K" if self._pending else ""
        end = "" if passing else "\n"
        stamp = f"{time.monotonic() - self._start:7.1f} s  "
        print(f"{lead}{stamp}{message}", end=end, file=sys.stderr, flush=True)
        self._pending = passing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when every figure was made."""
    parser = argparse.ArgumentParser(
        prog="python -m bilsh.experiments", description="The paper's figures: tables, pictures, one report."
    )
    add_options(parser.add_argument)
    asked = vars(parser.parse_args(arguments))
    try:
        outcome = reproduce(asked.pop("figures"), progress=Progress(), **asked)
    except (BilshError, OSError) as error:
        print(f"error: {explain(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130
    for name, reason in outcome.failures.items():
        print(f"{name} was not made: {reason}", file=sys.stderr)
    print(outcome.report)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
