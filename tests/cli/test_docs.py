"""docs/cli.md shows every command, options that exist, and the schema of the answers."""

import re
from pathlib import Path

import pytest

from bilsh.cli import schema
from bilsh.cli.commands import COMMANDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text("utf-8")


def test_the_page_shows_the_schema_and_every_command():
    assert schema.markdown() in PAGE
    for name in COMMANDS:
        assert f"bilsh {name}" in PAGE or f"| {name} |" in PAGE, name


@pytest.mark.parametrize("block", re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL))
def test_options_in_the_page_exist(block):
    from typer.testing import CliRunner

    from bilsh.cli.commands import app

    for command, rest in re.findall(r"^\$ bilsh (\S+)(.*)$", block, flags=re.MULTILINE):
        text = CliRunner().invoke(app, [command, "--help"]).output
        for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest):
            assert option in text, (command, option)
