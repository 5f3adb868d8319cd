"""A claim: a place in a page, the numbers that stand there, and the function that makes them again."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Claim:
    """Numbers of one sentence or table.

    Attributes
    ----------
    file : str
        Page, from the root of the repository.
    pattern : str
        Regular expression with a group around every number (or run of numbers) that is claimed. A space stands for any
        white space, so that pages may be wrapped anew.
    compute : callable () -> sequence of float
        Makes the numbers of all groups again, in order.
    tolerance : float or None
        Largest absolute difference; None is half a unit of the last digit that is printed.
    slow : bool
        Whether only `make claims` checks it.
    """

    file: str
    pattern: str
    compute: Callable[[], Sequence[float]]
    tolerance: float | None = None
    slow: bool = False

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self.file}: {self.pattern[:48]}"

    def printed(self) -> list[tuple[str, float]]:
        """Return the numbers as they stand in the page, as text and value."""
        text = (ROOT / self.file).read_text("utf-8")
        found = re.findall(self.pattern.replace(" ", r"\s+"), text, re.DOTALL)
        if len(found) != 1:
            raise AssertionError(
                f"{self.file} has {len(found)} places like {self.pattern!r}; a claim needs exactly one. "
                "Adapt it to the page."
            )
        groups = [found[0]] if isinstance(found[0], str) else list(found[0])
        numbers = [number for group in groups for number in NUMBER.findall(group)]
        return [(number, float(number.replace(",", ""))) for number in numbers]

    def check(self) -> None:
        """Fail where a number of the page is not what the function makes."""
        printed, made = self.printed(), [float(value) for value in self.compute()]
        if len(printed) != len(made):
            raise AssertionError(
                f"{self.name}: the page has {len(printed)} numbers, the function {len(made)}."
            )
        for (text, value), again in zip(printed, made, strict=True):
            allowed = unit(text) / 2 if self.tolerance is None else self.tolerance
            if not abs(value - again) <= allowed * (1 + 1e-9) + 1e-12:
                raise AssertionError(
                    f"{self.name}: the page says {text}, it is {again:.6g} (allowed ± {allowed:.3g})."
                )


def unit(text: str) -> float:
    """Value of the last printed digit.

    >>> unit("1.404"), unit("5,331"), unit(".05")
    (0.001, 1.0, 0.01)
    """
    digits = text.partition(".")[2]
    return float(10 ** -len(digits))
