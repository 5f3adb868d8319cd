"""Wrong usage, and the exact words that answer it: what was expected, what came, what to do.

One table for the command line, one for the library. A message that ends in "..." is compared up to there: the rest is
the parser's. No row may leave anything behind, and no message may speak Python to people at a shell.
"""

# ruff: noqa: E501 (a message is easier to read, and to find, in one line)

import re
from pathlib import Path

import numpy as np
import pytest

import bilsh as bilsh_
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
        "Error: Invalid value for '--method': 'magic' is not one of 'default', 'kernel', 'angle', 'blsh-sik', 'lsh-sik', 'lsh-angle', 'bilinear-angle', 'circulant-sik', 'circulant-angle', 'hadamard-kernel', 'hadamard-angle', 'learned'.",
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
        "error: No part is called 'everything'; choose from encode, ways, hamming, memory, scaling, progressive, store, cells, cells-growth, cells-store, page.",
    ),
]

ROWS = np.random.default_rng(0).normal(size=(40, 6))
ENCODER = bilsh_.AngleEncoder(64, random_state=0).fit(ROWS)
CODES = ENCODER.transform(ROWS)
INDEX = bilsh_.Index(CODES, ENCODER)


def opened(name="named", mode="r"):
    return bilsh_.Store.open(name, mode)


LIBRARY = [
    (
        lambda: INDEX.search(ROWS, similarity="angle"),
        errors.InvalidTypeError,
        "the argument similarity is gone: hits.similarity is the cosine or the kernel; hits.estimate(of=...) says it in other words.",
    ),
    (
        lambda: INDEX.search(ROWS[:1]).estimate(of="euclidean"),
        errors.InvalidInputError,
        "these codes tell angle or cosine; got 'euclidean'. It is called 'distance' now.",
    ),
    (
        lambda: INDEX.search(ROWS[:1]).estimate(of="distance"),
        errors.InvalidInputError,
        "these codes tell angle or cosine; got 'distance'. Angle codes hold no norms, hence no distances.",
    ),
    (
        lambda: bilsh_.Index(ROWS),
        errors.InvalidTypeError,
        "codes must be packed codes of dtype uint8; got dtype float64. Pack bits with bilsh.codes.pack, or encode descriptors with an encoder.",
    ),
    (
        lambda: bilsh_.Index(CODES[:, :3], ENCODER),
        errors.InvalidInputError,
        "codes of this encoder have 8 bytes; got 3. Were they made by another encoder?",
    ),
    (
        lambda: bilsh_.Index(CODES, ENCODER, ids=[1] * 40),
        errors.InvalidInputError,
        "ids must be distinct; some occur twice.",
    ),
    (
        lambda: bilsh_.Index(CODES, ENCODER, vectors=ROWS[:3]),
        errors.InvalidInputError,
        "vectors must be one per code, 40; got 3.",
    ),
    (
        lambda: INDEX.search(),
        errors.InvalidInputError,
        "give one of Q (descriptors), codes=, ids= and query_values=, and only one.",
    ),
    (
        lambda: INDEX.search(ROWS[0]),
        errors.InvalidInputError,
        "X must have 2 dimensions (n, d) or 3 (n, d_w, d_v); got shape (6,). Reshape your data using X.reshape(1, -1) if it is a single descriptor.",
    ),
    (
        lambda: bilsh_.AngleEncoder(64).fit(np.zeros((2, 2, 2, 2))),
        errors.InvalidInputError,
        "X must have 2 dimensions (n, d) or 3 (n, d_w, d_v); got shape (2, 2, 2, 2). Reshape your data using X.reshape(len(X), -1).",
    ),
    (lambda: INDEX.search("x"), errors.InvalidTypeError, "X must hold real numbers; got dtype <U1."),
    (lambda: INDEX.search(ROWS, 0), errors.InvalidInputError, "k must be >= 1; got 0."),
    (lambda: INDEX.search(ROWS, "3"), errors.InvalidTypeError, "k must be a whole number >= 1; got '3'."),
    (
        lambda: INDEX.search(ROWS, n_jobs=0),
        errors.InvalidInputError,
        "n_jobs must not be 0; use None or 1 for one thread, -1 for all cores.",
    ),
    (lambda: INDEX.search(ids=[99]), errors.InvalidInputError, "id 99 is not here (1 of 1 are not)."),
    (
        lambda: INDEX.search(ids=3),
        errors.InvalidTypeError,
        "ids must be integers (n,); got int64 of shape ().",
    ),
    (
        lambda: bilsh_.AngleEncoder("64").fit(ROWS),
        errors.InvalidTypeError,
        "n_bits must be a whole number >= 1; got '64'.",
    ),
    (
        lambda: bilsh_.AngleEncoder(64, projection="magic").fit(ROWS),
        errors.InvalidInputError,
        "projection must be one of 'dense', 'bilinear', 'circulant', 'hadamard', or an object; got 'magic'.",
    ),
    (
        lambda: bilsh_.KernelEncoder(64, kernel="magic").fit(ROWS),
        errors.InvalidInputError,
        "kernel must be one of 'gaussian', 'laplacian', 'cauchy', 'matern'; got 'magic'.",
    ),
    (
        lambda: bilsh_.KernelEncoder(64, bandwidth=-1).fit(ROWS),
        errors.InvalidInputError,
        "bandwidth must be finite and > 0; got -1.",
    ),
    (
        lambda: bilsh_.hamming(CODES, CODES[:, :3]),
        errors.InvalidInputError,
        "a and b must have codes of equal length; got 8 and 3 bytes per code. Were they made by the same encoder?",
    ),
    (
        lambda: bilsh_.prefix(CODES, 100),
        errors.InvalidInputError,
        "n_bits must be at most 64, the bits of these codes; got 100.",
    ),
    (
        lambda: bilsh_.pack([[0, 2]]),
        errors.InvalidInputError,
        "bits must be 0 or 1; got values from 0 to 2.",
    ),
    (
        lambda: bilsh_.estimate(CODES[0], CODES[1], encoder=bilsh_.AngleEncoder(64)),
        errors.InvalidInputError,
        "the encoder is not fitted yet. Call encoder.fit(X) first.",
    ),
    (
        lambda: bilsh_.estimate(CODES[0], CODES[1], encoder=ENCODER, confidence=2),
        errors.InvalidInputError,
        "confidence must be between 0 and 1, ends excluded; got 2.",
    ),
    (
        lambda: bilsh_.Store.create("new"),
        errors.InvalidInputError,
        "give a fitted encoder, or n_bits= for codes that are made elsewhere.",
    ),
    (
        lambda: bilsh_.Store.create("new", bilsh_.AngleEncoder(64)),
        errors.InvalidInputError,
        "the encoder is not fitted yet. Call encoder.fit(X) first.",
    ),
    (
        lambda: bilsh_.Store.create("new", n_bits=64, bits="magic"),
        errors.InvalidInputError,
        "bits must be None, 'sign' or 'sign of a rotation'; got 'magic'.",
    ),
    (
        lambda: bilsh_.Store.create("new", ENCODER, keep_vectors=True),
        errors.InvalidInputError,
        "keep_vectors must be 'float32', 'float16' or None; got True.",
    ),
    (
        lambda: bilsh_.Store.open("nowhere"),
        FileNotFoundError,
        "there is no store at nowhere. Make one with Store.create.",
    ),
    (lambda: bilsh_.Store.open("x.npy"), NotADirectoryError, "x.npy is a file; a store is a directory."),
    (
        lambda: bilsh_.Store.open("named", version=77),
        errors.DataNotFoundError,
        "version 77 is not kept. Store.versions tells which are.",
    ),
    (
        lambda: opened().add(ROWS),
        errors.InvalidInputError,
        "this store is open for reading. Open it with Store.open(path, mode='a') to change it.",
    ),
    (
        lambda: opened().search(ids="n3"),
        errors.InvalidTypeError,
        "ids must be a sequence of ids; got one str. Write ['n3'].",
    ),
    (
        lambda: opened().search(ROWS[:1], where=[1]),
        errors.InvalidTypeError,
        "this store has string ids (fixed by its first add); got integer ids. Convert them first.",
    ),
    (
        lambda: opened().search(ROWS[:1], rerank=True),
        errors.InvalidInputError,
        "rerank=True needs the vectors, which are not kept here. Keep them, or pass rerank=vectors.",
    ),
    (lambda: opened().get(["nope"]), errors.InvalidInputError, "id 'nope' is not in the store."),
    (
        lambda: bilsh_.load_encoder("broken.encoder"),
        errors.CorruptEncoderError,
        "broken.encoder is not an encoder file: it does not start with BILSHENC.",
    ),
    (
        lambda: bilsh_.choose_encoder(ROWS[:2], 64),
        errors.InvalidInputError,
        "X has 2 rows; measuring recall needs at least 3.",
    ),
    (
        lambda: ENCODER.truncated(100),
        errors.InvalidInputError,
        "n_bits must be at most 64, the bits of this encoder; got 100.",
    ),
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
        "circulant-angle, hadamard-kernel, hadamard-angle, learned; got 'magic'.",
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


@pytest.mark.parametrize(("call", "error", "message"), LIBRARY, ids=[row[2][:60] for row in LIBRARY])
def test_library(place, monkeypatch, call, error, message):
    monkeypatch.chdir(place)
    before = contents(place)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == message
    assert contents(place) == before
