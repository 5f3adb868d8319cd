"""Small JSON files that are checked to the last byte and can still be read by people.

Such a file is `{"sha256":"<of the body>","<name>":<body>}` and a line feed, with exactly these bytes around the body,
so that a change of any byte is noticed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


class BrokenSealError(ValueError):
    """A byte of a file is not as written."""


def seal(name: str, value: Any) -> bytes:
    """Bytes of a file that holds a JSON value.

    Examples
    --------
    >>> unseal("note", seal("note", {"a": 1}))
    {'a': 1}
    """
    return _framed(name, json.dumps(value, separators=(",", ":")).encode("ascii"))


def unseal(name: str, data: bytes) -> Any:
    """Value in a file; BrokenSealError where a byte of it is not as written."""
    start = len(_framed(name, b"")) - len(b"}\n")
    body = data[start : -len(b"}\n")]
    if data != _framed(name, body):
        raise BrokenSealError("its checksum does not match")
    return json.loads(body)


def _framed(name: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return b'{"sha256":"%s","%s":%s}\n' % (digest.encode("ascii"), name.encode("ascii"), body)
