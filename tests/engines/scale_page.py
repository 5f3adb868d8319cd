"""The blocks of docs/scale.md that need servers or a cluster: tests run them on real ones."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BLOCK = re.compile(r"^<!-- not run: needs [^>]+ -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(text):
    """Return the one block that holds a text."""
    [body] = [body for body in BLOCK.findall(PAGE.read_text()) if text in body]
    return body


def commands(text):
    """Return the arguments of each command of the block that holds a text."""
    return [shlex.split(line.removeprefix("$ bilsh ")) for line in block(text).splitlines()]
