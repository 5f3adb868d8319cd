"""docs/cli.md says what the program prints, and shows the schema of its answers."""

import re
from pathlib import Path

import pytest

from bilsh.cli import schema
from bilsh.cli.commands import COMMANDS
from cli.program import bilsh

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text("utf-8")
REPLAYED = re.findall(r"<!-- replayed by the tests -->\n```console\n(.*?)```", PAGE, flags=re.DOTALL)


DECIMAL = re.compile(r"\d\.\d{3}")


def settled(text):
    """Leave out what differs from run to run: times of versions, and sizes that depend on it."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"[\d.]+ kB", "SIZE", text)


def test_the_examples_are_what_the_program_prints(tmp_path):
    steps = [re.split(r"^\$ bilsh ", block, flags=re.MULTILINE)[1:] for block in REPLAYED]
    assert sum(map(len, steps)) >= 10
    for step in (step for block in steps for step in block):
        command, _, printed = step.partition("\n")
        done = bilsh(*command.split(), cwd=tmp_path)
        said, shown = settled(done.stdout).split(), settled(printed).split()
        assert [DECIMAL.sub("X", word) for word in said] == [DECIMAL.sub("X", word) for word in shown], (
            command
        )
        for word, other in zip(said, shown, strict=True):
            if DECIMAL.fullmatch(word):
                # Estimates are rounded; a better calibration may move one a little, a mistake moves it more.
                assert abs(float(word) - float(other)) < 0.01, (command, word, other)


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
