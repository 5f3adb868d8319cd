"""The program: one typer application, one place where errors become sentences and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damaged data, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from bilsh.cli import show
from bilsh.cli.words import for_users
from bilsh.errors import BilshError, CorruptEncoderError, CorruptExportError, CorruptStoreError

FAILED, DAMAGED, INTERRUPTED = 1, 3, 130


class Program(TyperGroup):
    """The group of all commands; errors of any of them end here."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their whole summaries, however narrow the terminal is; click would cut them."""
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        warnings.showwarning = _show_warning
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
            return value
        except KeyboardInterrupt:
            if show.switches.debug:
                raise
            show.complain(
                "interrupted. " + AFTER_INTERRUPT.get(str(ctx.invoked_subcommand), "Nothing was changed.")
            )
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader has seen enough (| head). Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
        except (BilshError, OSError, MemoryError, ModuleNotFoundError) as error:
            if show.switches.debug:
                raise
            show.complain(sentence(error))
            damaged = isinstance(error, CorruptStoreError | CorruptEncoderError | CorruptExportError)
            raise typer.Exit(DAMAGED if damaged else FAILED) from None


PACKAGES = {"sklearn": "scikit-learn", "cv2": "opencv-python-headless", "faiss": "faiss-cpu"}
"""Packages that are called otherwise than their modules."""

AFTER_INTERRUPT = {
    "encode": "What was committed is safe; run the same command again to go on.",
    "add": "Nothing of this call was added; run it again.",
    "import": "Nothing of this call was added; run it again.",
    "copy": "What was written is safe; run the same command again to go on.",
    "export": "No file was left half written; run it again.",
    "backup": "Run it again to go on.",
    "repair": "The store is as before; run it again.",
    "compact": "The store is as before, or compacted; `bilsh verify` tells.",
    "reproduce": "Run it again to go on.",
}


def sentence(error: BaseException) -> str:
    """Say in one sentence what went wrong."""
    if isinstance(error, MemoryError):
        return "out of memory. Use a smaller --batch, or fewer --jobs."
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, BilshError):
        package = PACKAGES.get(str(error.name).split(".")[0], error.name)
        return f"this needs the package {package}, which is not installed: pip install {package}."
    if isinstance(error, OSError) and not isinstance(error, BilshError):
        where = f" ({error.filename})" if error.filename else ""
        text = f"{error.strerror or error}{where}."
        if not error.strerror:
            text = str(error)
        return for_users(" ".join([text, *getattr(error, "__notes__", [])]))
    return for_users(str(error))


def _show_warning(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **more: Any) -> None:
    show.note(f"note: {for_users(str(message))}")
