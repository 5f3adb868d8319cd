"""The command line: parse, call, show. What it calls is in :mod:`bilsh.workflows`."""

from bilsh.cli.program import main

__all__ = ["main"]
