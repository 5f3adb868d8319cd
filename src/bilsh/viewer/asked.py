"""Parameters of a request, checked: what was expected, what came, what to do."""

from __future__ import annotations

import re

from starlette.requests import Request

from bilsh.errors import InvalidInputError

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{0,9}(\.[0-9]{0,12})?", re.ASCII)
MAX_TEXT = 200


def known(request: Request, *names: str) -> None:
    """Refuse parameters that would be ignored, and those given twice."""
    for name in request.query_params:
        if name not in names:
            raise InvalidInputError(
                f"unknown parameter {_short(name)}; expected {', '.join(names) or 'none'}."
            )
        if len(request.query_params.getlist(name)) > 1:
            raise InvalidInputError(f"parameter {name} is given more than once.")


def integer(request: Request, name: str, default: int | None = None) -> int:
    """Return a parameter that is a whole number."""
    text = request.query_params.get(name)
    if text is None:
        if default is None:
            raise InvalidInputError(f"expected the parameter {name}, a whole number; it is missing.")
        return default
    if not _INTEGER.fullmatch(text):
        raise InvalidInputError(f"{name} must be a whole number; got {_short(text)}.")
    return int(text)


def number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """Return a parameter that is a number within bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    value = float(text) if _NUMBER.fullmatch(text) and text not in ("", ".") else None
    if value is None or not low <= value <= high:
        raise InvalidInputError(f"{name} must be a number from {low:g} to {high:g}; got {_short(text)}.")
    return value


def choice(request: Request, name: str, allowed: tuple[str, ...]) -> str:
    """Return a parameter that is one of some words, by default the first."""
    text = request.query_params.get(name, allowed[0])
    if text not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}; got {_short(text)}.")
    return text


def words(request: Request, name: str) -> str:
    """Return a parameter that is any text, of bounded length."""
    text = request.query_params.get(name, "")
    if len(text) > MAX_TEXT:
        raise InvalidInputError(f"{name} must have at most {MAX_TEXT} characters; got {len(text)}.")
    return text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
