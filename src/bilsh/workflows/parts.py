"""Long work in parts that are kept: a run that was cut off goes on where it was, and memory holds one part.

Beside the output lies a folder of the parts, each an .npz that is whole or not there. When all are made they are put
together, and the folder goes.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import check_folder
from bilsh.errors import InvalidInputError, optional
from bilsh.files import replace_file

Columns = dict[str, NDArray[Any]]
FORMATS = (".npz", ".parquet")


class Parts:
    """Parts of one output.

    Parameters
    ----------
    output : path
        .npz or .parquet.
    job : dict
        What is made, of what: parts of anything else are refused.
    overwrite : bool
        Replace an output that is there.
    """

    def __init__(self, output: Path, job: dict[str, Any], *, overwrite: bool = False) -> None:
        if output.suffix not in FORMATS:
            raise InvalidInputError(f"the output must end in {' or '.join(FORMATS)}; got {output.name!r}.")
        if output.suffix == ".parquet":
            optional("pyarrow", "Writing Parquet")
        check_folder(output)
        if output.exists() and not overwrite:
            raise InvalidInputError(
                f"{output} exists already. Choose another name with -o, or overwrite with --force."
            )
        self.output, self.folder = output, output.with_name(f"{output.name}.parts")
        note = json.dumps(job, sort_keys=True)
        path = self.folder / "job.json"
        if path.exists() and path.read_text("utf-8") != note:
            raise InvalidInputError(
                f"{self.folder} holds parts of other work: the store has changed since, or the settings are others. "
                "Remove it, or choose another name with -o."
            )
        self.folder.mkdir(exist_ok=True)
        if not path.exists():
            with replace_file(path) as file:
                file.write(note.encode("utf-8"))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.npz"

    def make(
        self, count: int, part: Callable[[int], Columns], progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make those of `count` parts that are not there yet; return at which one it began."""
        begun = next((number for number in range(count) if not self._path(number).exists()), count)
        for number in range(begun, count):
            if progress is not None:
                progress(number, count)
            columns: dict[str, Any] = part(number)
            with replace_file(self._path(number)) as file:
                np.savez(file, **columns)  # old NumPy takes allow_pickle for an array
        self._count = count
        return begun

    def _read(self, name: str | None = None) -> Iterator[Columns]:
        for number in range(self._count):
            with np.load(self._path(number), allow_pickle=False) as part:
                yield {key: part[key] for key in part.files if name in (None, key)}

    def finish(self) -> int:
        """Put the parts together as one file, and remove them; return the number of rows."""
        rows = (self._as_npz if self.output.suffix == ".npz" else self._as_parquet)()
        shutil.rmtree(self.folder)
        return rows

    def _as_npz(self) -> int:
        shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        rows = 0
        for columns in self._read():
            for name, values in columns.items():
                kind = shapes[name][0] if name in shapes else values.dtype
                shapes[name] = np.promote_types(kind, values.dtype), values.shape[1:]
            rows += len(next(iter(columns.values())))
        with replace_file(self.output) as file, zipfile.ZipFile(file, "w") as archive:
            for name, (dtype, rest) in shapes.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, *rest)}
                    np.lib.format.write_array_header_2_0(member, header)
                    for columns in self._read(name):
                        member.write(np.ascontiguousarray(columns[name], dtype=dtype).tobytes())
        return rows

    def _as_parquet(self) -> int:
        arrow, parquet = (
            optional("pyarrow", "Writing Parquet"),
            optional("pyarrow.parquet", "Writing Parquet"),
        )
        rows, writer = 0, None
        with replace_file(self.output) as file:
            for columns in self._read():
                table = arrow.table(
                    {
                        name: arrow.array(values.tolist() if values.ndim > 1 else values)
                        for name, values in columns.items()
                    }
                )
                writer = writer or parquet.ParquetWriter(file, table.schema)
                writer.write_table(table.cast(writer.schema))
                rows += table.num_rows
            if writer is not None:
                writer.close()
        return rows
