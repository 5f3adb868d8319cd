"""Reading a FAISS file in a process of its own, with limits on memory and time.

FAISS trusts its files: a crafted or damaged one may crash the process that reads it, or worse. Here it can crash a
child that holds nothing and writes nothing but a pipe. That contains accidents; it is no sandbox, so files from
strangers are still not safe to read.

``python -m bilsh.workflows.faiss_reader FILE`` writes one line of JSON (rows, bytes per code, whether ids follow), the
ids as int64 and the codes to its output.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError, optional

MEMORY = 2 << 30
"""Bytes that a reader may use besides four times the size of the file."""
SECONDS = 60
"""Seconds of processor time that a reader may use, and one more for every 10 MB of the file."""

CHUNK = 65536
_HEADER = 4096


class FaissFile:
    """Codes of a FAISS binary index, from a child process.

    Attributes
    ----------
    rows, width : int
        Number of codes and bytes of each.
    ids : int64 (rows,) or None
    """

    def __init__(self, path: Path) -> None:
        optional("faiss", "Reading FAISS indexes")
        self._path = path
        self._child = subprocess.Popen(  # noqa: S603 (our own module, by the interpreter that runs)
            [sys.executable, "-P", "-m", __name__, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        line = self._pipe.readline(_HEADER)
        try:
            header = json.loads(line)
            self.rows, self.width, has_ids = int(header["rows"]), int(header["width"]), bool(header["ids"])
        except (ValueError, KeyError, TypeError):
            raise self._failure() from None
        if self.rows * self.width > path.stat().st_size:
            raise self._failure()
        self.ids: NDArray[np.int64] | None = None
        if has_ids:
            self.ids = np.frombuffer(self._read(8 * self.rows), "<i8")

    @property
    def _pipe(self) -> IO[bytes]:
        pipe = self._child.stdout
        if pipe is None:
            raise InvalidInputError(f"{self._path} is closed.")
        return pipe

    def batches(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the codes, some at a time."""
        for start in range(0, self.rows, CHUNK):
            count = min(CHUNK, self.rows - start)
            yield np.frombuffer(self._read(count * self.width), np.uint8).reshape(count, self.width)
        self.close()

    def close(self) -> None:
        """End the child."""
        self._child.kill()
        self._child.communicate()

    def _read(self, count: int) -> bytes:
        data = self._pipe.read(count)
        if len(data) != count:
            raise self._failure()
        return data

    def _failure(self) -> InvalidInputError:
        """Say why the child gave nothing; what it says itself is one line."""
        self._child.stdout, pipe = None, self._child.stdout
        if pipe is not None:
            pipe.close()
        said = self._child.communicate()[1].decode(errors="replace").strip().splitlines()
        code = self._child.returncode
        if code == 2 and said:
            return InvalidInputError(said[-1])
        why = f"signal {-code}" if code < 0 else "an error of FAISS"
        return InvalidInputError(
            f"{self._path} is not a FAISS binary index, or is damaged (its reader ended by {why}). "
            "Write or fetch it again."
        )


def main(path: Path, output: IO[bytes]) -> None:
    """Read a file and write what it holds; the text of an exception says why that is not possible."""
    faiss: Any = optional("faiss", "Reading FAISS indexes")
    size = path.stat().st_size
    in_use = _address_space()
    for what, limit in (
        (resource.RLIMIT_AS, in_use + 4 * size + MEMORY),
        (resource.RLIMIT_CPU, SECONDS + size // 10_000_000),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(what)
        resource.setrlimit(what, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
    try:
        outer = faiss.read_index_binary(str(path))
    except (RuntimeError, MemoryError):
        raise InvalidInputError(
            f"{path} is not a FAISS binary index, or is damaged. Write or fetch it again."
        ) from None
    # The map owns the index inside it: it must live until the codes have been written.
    ids, index = None, outer
    if isinstance(outer, faiss.IndexBinaryIDMap):
        ids, index = faiss.vector_to_array(outer.id_map), faiss.downcast_IndexBinary(outer.index)
    if not isinstance(index, faiss.IndexBinaryFlat):
        raise InvalidInputError(
            f"{path} holds a {type(index).__name__}; only IndexBinaryFlat keeps plain codes. Export it as one."
        )
    codes = faiss.vector_to_array(index.xb).reshape(index.ntotal, -1)
    if ids is not None and len(ids) != len(codes):
        raise InvalidInputError(f"{path} is damaged: it holds {len(codes)} codes and {len(ids)} ids.")
    header = {"rows": len(codes), "width": codes.shape[1], "ids": ids is not None}
    output.write(json.dumps(header).encode() + b"\n")
    if ids is not None:
        output.write(np.ascontiguousarray(ids, "<i8").tobytes())
    for start in range(0, len(codes), CHUNK):
        output.write(codes[start : start + CHUNK].tobytes())
    output.flush()


def _address_space() -> int:
    """Return the bytes of address space in use; libraries reserve far more than they touch."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 16 << 30


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.stdout.buffer)
    except (InvalidInputError, OSError) as failure:
        print(" ".join(str(failure).split()), file=sys.stderr)
        sys.exit(2)
