"""Wrong usage, and the exact words that answer it: what was expected, what came, what to do.

One table for the command line, one for the library. A message that ends in "..." is compared up to there: the rest is
the parser's. No row may leave anything behind, and no message may speak Python to people at a shell.
"""

# ruff: noqa: E501 (a message is easier to read, and to find, in one line)

import re
from pathlib import Path

import numpy as np
import pytest

from bilsh import datasets, errors
from bilsh.workflows import exports, imports, ingest, queries
from cli.program import bilsh

COMMAND_LINE = [
    ("frobnicate", 2, "Error: No such command 'frobnicate'."),
    ("encode", 2, "Error: Missing argument 'SOURCE'."),
    ("encode x.npy", 2, "Error: Missing option '--output' / '-o'."),
    ("encode nowhere.npy -o s", 1, "error: nowhere.npy does not exist. Check the path."),
    ("encode x.npy -o s --bits 0", 2, "Error: Invalid value for '--bits':..."),
    ("encode x.npy -o s --bits many", 2, "Error: Invalid value for '--bits':..."),
    (
        "encode x.npy -o s --method magic",
        2,
        "Error: Invalid value for '--method': 'magic' is not one of 'default', 'kernel', 'angle', 'blsh-sik', 'lsh-sik', 'lsh-angle', 'bilinear-angle', 'circulant-sik', 'circulant-angle', 'hadamard-kernel', 'hadamard-angle'.",
    ),
    (
        "encode x.npy -o s --method lsh-sik --oversampling 5",
        1,
        "error: oversampling is a setting of kernel, angle, blsh-sik; not of lsh-sik.",
    ),
    (
        "encode x.dat -o s",
        1,
        "error: x.dat has none of the known suffixes .npy, .fvecs, .bvecs, .ivecs, .npz, .parquet, .csv, .h5, .hdf5 (or idx files such as train-images-idx3-ubyte.gz). Rename it or convert it, e.g. with numpy.save.",
    ),
    (
        "encode broken.npy -o s",
        1,
        "error: broken.npy is not a readable .npy file (it does not begin as one). Write or fetch it again.",
    ),
    (
        "encode obj.npy -o s",
        1,
        "error: obj.npy is not a readable .npy file (it holds Python objects, which are never unpickled). Write or fetch it again.",
    ),
    ("encode text.npy -o s", 1, "error: text.npy holds <U1 values; expected real numbers."),
    ("encode complex.npy -o s", 1, "error: complex.npy holds complex128 values; expected real numbers."),
    (
        "encode deep.npy -o s",
        1,
        "error: deep.npy has shape (2, 2, 2, 2); expected items as rows, (n, d) or (n, d_w, d_v), with d >= 1.",
    ),
    ("encode none.npy -o s", 1, "error: none.npy has shape (0, 6): it holds no items."),
    (
        "encode nan.npy -o s",
        1,
        "error: nan.npy: row 3, column 2 (from 0) is NaN. Remove or impute such values first.",
    ),
    ("encode two.npz -o s", 1, "error: two.npz holds several arrays; choose with --key among a, b."),
    ("encode two.npz -o s --key c", 1, "error: two.npz holds no array 'c'; choose with --key among a, b."),
    ("encode x.npy -o s --key a", 1, "error: x.npy holds a single array: leave out the name 'a'."),
    (
        "encode x.npy -o folder",
        1,
        "error: folder exists and is no store. Choose another place with -o, or empty it first.",
    ),
    (
        "encode x.npy -o x.npy",
        1,
        "error: x.npy exists and is no store. Choose another place with -o, or empty it first.",
    ),
    (
        "encode x.npy -o store --bits 128",
        1,
        "error: store was begun with --bits 64, now 128 is asked for. Go on with the same options, or choose another place with -o.",
    ),
    (
        "encode wide.npy -o store --bits 64 --batch 16",
        1,
        "error: wide.npy is not what store was begun with, or has changed since (PLACE/x.npy). Add further items with `bilsh add`, or choose another place with -o.",
    ),
    ("encode x.npy -o s --ids short.txt", 1, "error: x.npy has 40 rows; 2 ids were given."),
    (
        "encode x.npy -o s --ids nowhere.txt",
        1,
        "error: nowhere.txt does not exist or is not a file. Check the path.",
    ),
    ("encode x.npy -o s --id-column a", 1, "error: x.npy holds a single array: leave out the name 'a'."),
    (
        "encode x.npy -o s --ids short.txt --id-column a",
        1,
        "error: give the ids in a file (--ids) or as a column (--id-column), not both.",
    ),
    (
        "encode x.npy -o s --ids words.txt",
        1,
        "error: ids must be unique; 'x' occurs more than once (39 repeated). Keep one row of each.",
    ),
    (
        "encode t.csv -o s",
        1,
        "error: t.csv: line 2, column name is 'x'; expected a number. Choose columns with --key a,b,c, or name the column of ids with --id-column.",
    ),
    (
        "encode empty -o s",
        1,
        "error: empty holds no images (.bmp, .jpeg, .jpg, .pgm, .png, .ppm, .tif, .tiff, .webp).",
    ),
    (
        "encode folder -o s --ids short.txt",
        1,
        "error: images go by their path; --ids and --id-column are for array files.",
    ),
    ("encode x.npy -o s --jobs 0", 2, "Error: Invalid value for '--jobs' / '-j':..."),
    (
        "encode x.npy -o s --codebook nowhere.npy",
        1,
        "error: nowhere.npy does not exist or is not a file. Check the path.",
    ),
    ("encode x.npy -o nowhere/deeper/s --batch 0", 2, "Error: Invalid value for '--batch':..."),
    (
        "encode x.npy -o s --describe hog",
        1,
        "error: x.npy is an array file; --describe, --codebook, --centers, --side and --max-side are for images.",
    ),
    ("encode empty -o s --key a", 1, "error: empty is a folder of images; --key is for array files."),
    ("add nowhere x.npy", 1, "error: there is no store at nowhere. Make one with `bilsh encode`."),
    (
        "add x.npy x.npy",
        1,
        "error: x.npy is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`.",
    ),
    (
        "add store wide.npy",
        1,
        "error: wide.npy holds items of shape (7,) (7 values); those of the store have shape (6,) (6 values).",
    ),
    (
        "add store nan.npy",
        1,
        "error: nan.npy: row 3, column 2 (from 0) is NaN. Remove or impute such values first.",
    ),
    (
        "add store x.npy --upsert",
        1,
        "error: to replace items their ids are needed: give --ids FILE or --id-column NAME.",
    ),
    (
        "add named x.npy",
        1,
        "error: the items of named have names; give one name per row with --ids FILE or --id-column NAME.",
    ),
    (
        "add named x.npy --ids names.txt",
        1,
        "error: id 'n0' is in the store already (in all 40 of 40). Use --upsert to replace items.",
    ),
    ("add store x.npy --ids words.txt", 1, "error: the ids of store are integers; got 'x'."),
    (
        "add store q.jpg",
        1,
        "error: q.jpg holds images, but the store was not made from images: describe them yourself and add an array file.",
    ),
    (
        "add store empty",
        1,
        "error: empty holds images, but the store was not made from images: describe them yourself and add an array file.",
    ),
    ("add empty x.npy", 1, "error: empty holds no bilsh store. Make one with `bilsh encode`."),
    ("search store", 2, "Error: Invalid value: give either --query FILE or --id ID."),
    ("search store --query x.npy --id 1", 2, "Error: Invalid value: give either --query FILE or --id ID."),
    ("search store --id 5000", 1, "error: id 5000 is not in the store."),
    ("search store --id seven", 1, "error: the ids of store are integers; got 'seven'."),
    ("search named --id n99", 1, "error: id 'n99' is not in the store."),
    (
        "search store --query nowhere.npy",
        1,
        "error: nowhere.npy does not exist or is not a file. Check the path.",
    ),
    (
        "search store --query wide.npy",
        1,
        "error: wide.npy holds items of shape (7,) (7 values); those of the store have shape (6,) (6 values).",
    ),
    (
        "search store --query deep.npy",
        1,
        "error: deep.npy has shape (2, 2, 2, 2); expected (n, d), (n, d_w, d_v) or (d,).",
    ),
    (
        "search store --query q.jpg",
        1,
        "error: q.jpg is an image, but store was not made from images by `bilsh encode`. Describe it yourself and pass an array file.",
    ),
    (
        "search store --query x.npy --rerank",
        1,
        "error: --rerank compares the items themselves, and store keeps only their codes. Leave it out, or encode again with --keep-vectors.",
    ),
    (
        "search store --id 1 --rerank",
        1,
        "error: --rerank compares the items themselves, and store keeps only their codes. Leave it out, or encode again with --keep-vectors.",
    ),
    (
        "search store --id 1 --mode asymmetric",
        1,
        "error: --mode asymmetric needs the query's real values, and store keeps only codes. Leave it out, or ask with --query.",
    ),
    ("search store --query x.npy -k 0", 2, "Error: Invalid value for '-k':..."),
    (
        "search store --query x.npy --mode fast",
        2,
        "Error: Invalid value for '--mode': 'fast' is not one of 'auto', 'progressive', 'hamming', 'asymmetric'.",
    ),
    (
        "search store --query x.npy --mode progressive --radius 3",
        1,
        "error: a radius counts differing bits, by a full scan: leave --mode at 'auto' or 'hamming'; got 'progressive'.",
    ),
    ("search store --query x.npy --radius -1", 2, "Error: Invalid value for '--radius':..."),
    (
        "search store --query x.npy --where nowhere.txt",
        1,
        "error: nowhere.txt does not exist or is not a file. Check the path.",
    ),
    ("search store --query one.npy --where words.txt", 1, "error: the ids of store are integers; got 'x'."),
    ("search folder --id 1", 1, "error: folder holds no bilsh store. Make one with `bilsh encode`."),
    (
        "search x.npy --id 1",
        1,
        "error: x.npy is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`.",
    ),
    ("search nowhere --id 1", 1, "error: there is no store at nowhere. Make one with `bilsh encode`."),
    (
        "search store --id 1 --html nowhere/x.html",
        1,
        "error: the folder nowhere does not exist. Make it first.",
    ),
    ("delete store", 2, "Error: Invalid value: give the ids of the items to delete, or --from FILE."),
    ("delete store seven", 1, "error: the ids of store are integers; got 'seven'."),
    (
        "delete store --from nowhere.txt",
        1,
        "error: nowhere.txt does not exist or is not a file. Check the path.",
    ),
    (
        "delete store --from empty.txt",
        2,
        "Error: Invalid value: give the ids of the items to delete, or --from FILE.",
    ),
    ("info folder", 1, "error: folder holds no bilsh store. Make one with `bilsh encode`."),
    (
        "info x.npy",
        1,
        "error: x.npy is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`.",
    ),
    ("verify nowhere", 1, "error: there is no store at nowhere. Make one with `bilsh encode`."),
    ("compact nowhere", 1, "error: there is no store at nowhere. Make one with `bilsh encode`."),
    (
        "repair x.npy",
        1,
        "error: x.npy is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`.",
    ),
    ("repair store --to-version 1", 1, "error: version 1 is no longer kept; there are 3, 4."),
    ("repair store --to-version 99", 1, "error: version 99 never was; there are 3, 4."),
    (
        "repair folder",
        1,
        "error: folder holds no version of a store. Where its segments are still there, --salvage may save them.",
    ),
    ("export store", 2, "Error: Missing option '--to'..."),
    (
        "export store --to xml",
        2,
        "Error: Invalid value for '--to': 'xml' is not one of 'faiss', 'npy', 'parquet', 'fvecs'.",
    ),
    (
        "export store --to fvecs",
        1,
        "error: fvecs holds vectors, and store keeps none (encode with --keep-vectors). Export its codes with --to npy, faiss or parquet.",
    ),
    ("export store --to npy -o nowhere/x.npy", 1, "error: the folder nowhere does not exist. Make it first."),
    ("export nowhere --to npy", 1, "error: there is no store at nowhere. Make one with `bilsh encode`."),
    ("import nowhere.npy -o s", 1, "error: nowhere.npy does not exist or is not a file. Check the path."),
    ("import x.dat -o s", 1, "error: x.dat must end in .npy, .parquet, .faiss, .index."),
    (
        "import x.npy -o s",
        1,
        "error: x.npy holds float32 (40, 6); expected codes, uint8 (n, n_bytes). Pack bits with numpy.packbits; signed bytes of a model (int8) are codes minus 128.",
    ),
    (
        "import codes.npy -o s --bits 70",
        1,
        "error: codes of 70 bits have 9 bytes; those of codes.npy have 8.",
    ),
    (
        "import codes.npy -o s --encoder nowhere.encoder",
        1,
        "error: nowhere.encoder does not exist. Give the encoder file that made the codes.",
    ),
    (
        "import codes.npy -o s --encoder broken.encoder",
        3,
        "error: broken.encoder is not an encoder file: it does not start with BILSHENC.",
    ),
    ("import long.npy -o store", 1, "error: codes of 64 bits have 8 bytes; those of long.npy have 9."),
    (
        "import codes.npy -o vectors",
        1,
        "error: vectors keeps the vectors of its items, and codes.npy has none. Import into a new store, or add the items themselves with `bilsh add`.",
    ),
    ("import codes.npy -o store --ids short.txt", 1, "error: codes.npy holds 3 codes, short.txt has 2 ids."),
    (
        "import codes.npy -o folder",
        1,
        "error: folder exists and is no store. Choose another place with -o, or empty it first.",
    ),
    (
        "import codes.npy -o store",
        1,
        "error: nothing says which encoder made codes.npy: codes of another one would be found by nobody. Give it with --encoder FILE, or say --trust if it is the encoder of store.",
    ),
    (
        "import codes.npy -o store --meaning sign",
        1,
        "error: --bits and --meaning are for a new store of codes made elsewhere; here the encoder knows both.",
    ),
    (
        "import long.npy -o s --bits 68 --highest-first",
        1,
        "error: codes packed highest bit first must fill whole bytes, --bits a multiple of 8; got 68.",
    ),
    (
        "advise empty --key a",
        1,
        "error: empty is a folder of images; --key and --id-column are for array files.",
    ),
    ("advise nowhere.npy", 1, "error: nowhere.npy does not exist or is not a file. Check the path."),
    ("advise one.npy", 1, "error: one.npy has 1 rows; advice needs at least 3."),
    ("datasets cifar", 2, "Error: Invalid value for 'NAME': 'cifar' is not one of 'digits', 'mnist'."),
    ("datasets digits -o nowhere/d.npy", 1, "error: the folder nowhere does not exist. Make it first."),
    (
        "reproduce figure9",
        1,
        "error: No figure is called 'figure9'; choose from rff, bounds, covariance, mnist, flickr, time, equal-time, beyond, or all.",
    ),
    ("bench --quick --smoke", 2, "Error: Invalid value: give --quick or --smoke, not both."),
    (
        "bench --smoke --only everything",
        1,
        "error: No part is called 'everything'; choose from encode, ways, hamming, memory, scaling, progressive, store.",
    ),
]

LIBRARY = [
    (
        lambda: datasets.load("nowhere.npy"),
        errors.DataNotFoundError,
        "nowhere.npy does not exist or is not a file. Check the path.",
    ),
    (
        lambda: datasets.load("two.npz"),
        errors.InvalidInputError,
        "two.npz holds several arrays; choose by key among a, b.",
    ),
    (
        lambda: datasets.write_vecs("x.txt", np.eye(2)),
        errors.InvalidInputError,
        "x.txt must end in .fvecs, .bvecs, .ivecs.",
    ),
    (
        lambda: ingest.encode(Path("x.npy"), Path("s"), ingest.Settings(batch=0)),
        errors.InvalidInputError,
        "batch must be at least 1; got 0.",
    ),
    (
        lambda: ingest.encode(Path("x.npy"), Path("s"), ingest.Settings(method="magic")),
        errors.InvalidInputError,
        "method must be one of default, kernel, angle, blsh-sik, lsh-sik, lsh-angle, bilinear-angle, circulant-sik, "
        "circulant-angle, hadamard-kernel, hadamard-angle; got 'magic'.",
    ),
    (
        lambda: queries.as_new_ids(["9" * 20]),
        errors.InvalidInputError,
        "ids that are numbers must be integers of 64 bits; got 99999999999999999999.",
    ),
    (
        lambda: queries.open_store(Path("x.npy")),
        errors.InvalidInputError,
        "x.npy is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`.",
    ),
    (
        lambda: imports.import_codes(Path("codes.txt"), Path("s")),
        errors.DataNotFoundError,
        "codes.txt does not exist or is not a file. Check the path.",
    ),
    (
        lambda: exports.export_codes(queries.open_store(Path("store")), Path("x.xml"), "xml"),
        errors.InvalidInputError,
        "to must be one of faiss, npy, parquet, fvecs; got 'xml'.",
    ),
]

PYTHON = re.compile(
    r"\b(?:Store|numpy|np|bilsh)\.(?!save\b|packbits\b)\w+|\w+=\S|Traceback|Errno|NoneType|[a-z]Error\b|Value error"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with stores, and with files of every kind that is wrong."""
    folder = tmp_path_factory.mktemp("wrong")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)).astype(np.float32)
    holed = X.copy()
    holed[3, 2] = np.nan
    arrays = {
        "x": X, "one": X[:1], "wide": np.zeros((2, 7), np.float32), "deep": np.zeros((2, 2, 2, 2), np.float32),
        "none": np.zeros((0, 6), np.float32), "text": np.array(["a", "b"]), "nan": holed,
        "complex": X.astype(complex), "codes": np.zeros((3, 8), np.uint8), "long": np.zeros((3, 9), np.uint8),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "obj.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(folder / "two.npz", a=X, b=X)
    texts = {
        "names.txt": "".join(f"n{i}\n" for i in range(40)), "words.txt": "x\n" * 40, "short.txt": "1\n2\n",
        "empty.txt": "", "t.csv": "name,a\nx,1\ny,2\n", "broken.npy": "no", "q.jpg": "no image", "x.dat": "x",
        "broken.encoder": "x", "folder/note": "",
    }  # fmt: skip
    (folder / "folder").mkdir()
    (folder / "empty").mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    bilsh("encode", "x.npy", "-o", "store", "--bits", 64, "--batch", 16, cwd=folder)
    bilsh("encode", "x.npy", "-o", "vectors", "--bits", 64, "--keep-vectors", cwd=folder)
    bilsh("encode", "x.npy", "-o", "named", "--bits", 64, "--ids", "names.txt", cwd=folder)
    return folder


def contents(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize(("arguments", "code", "message"), COMMAND_LINE, ids=[row[0] for row in COMMAND_LINE])
def test_command_line(place, arguments, code, message):
    before = contents(place)
    done = bilsh(*arguments.split(), cwd=place, code=code)
    last = done.stderr.strip().splitlines()
    said = next(line for line in reversed(last) if line.lower().startswith("error: "))
    said = said.replace(str(place), "PLACE")
    if message.endswith("..."):
        assert said.startswith(message.removesuffix("..."))
    else:
        assert said == message
        assert not PYTHON.search(said)
    assert not done.stdout
    assert contents(place) == before


@pytest.mark.parametrize(("call", "error", "message"), LIBRARY, ids=[row[2][:40] for row in LIBRARY])
def test_library(place, monkeypatch, call, error, message):
    monkeypatch.chdir(place)
    before = contents(place)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == message
    assert contents(place) == before
