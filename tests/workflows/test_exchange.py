"""What goes out comes back, or is refused: digests, companions, damage, foreign files."""

import json
import os
import stat

import numpy as np
import pytest

from bilsh import AngleEncoder, KernelEncoder, Store
from bilsh.errors import CorruptExportError, DataNotFoundError, InvalidInputError
from bilsh.store.recipe import read_recipe
from bilsh.workflows.exchange import Digest
from bilsh.workflows.exports import export_codes
from bilsh.workflows.imports import import_codes
from bilsh.workflows.ingest import Settings, encode

FORMS = ["npy", "parquet", "faiss"]


def export(path, target, to, **more):
    with Store.open(path) as store:
        return export_codes(store, target, to, **more)


def everything(path):
    with Store.open(path) as store:
        parts = list(store.batches())
        ids = [item for part in parts for item in part.ids]
        order = np.argsort(np.array(ids, dtype=object))
        codes = np.concatenate([part.codes for part in parts])[order]
        vectors = (
            None if parts[0].vectors is None else np.concatenate([part.vectors for part in parts])[order]
        )
        notes = [note for part in parts for note in part.metadata]
        return [ids[i] for i in order], codes, vectors, [notes[i] for i in order]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", ["store", "named"])
def test_codes_and_ids_come_back(request, tmp_path, form, which):
    if form == "faiss":
        pytest.importorskip("faiss")
    path = request.getfixturevalue(which)
    counts = []
    with Store.open(path, mode="a") as opened:
        opened.delete([0, 7] if which == "store" else ["item 0", "item 7"])
    done = export(path, tmp_path / f"out.{form}", form, progress=lambda *step: counts.append(step))
    assert counts[-1] == ("exporting", 298, 298)
    assert all((tmp_path / name).is_file() for name in done.files)
    again = import_codes(tmp_path / f"out.{form}", tmp_path / "again")
    assert (again.items, again.checked, again.notes) == (298, True, ())
    old, new = everything(path), everything(tmp_path / "again")
    assert old[0] == new[0]
    np.testing.assert_array_equal(old[1], new[1])
    if form == "parquet" and which == "store":  # the only format with a place for vectors
        np.testing.assert_array_equal(old[2], new[2])
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_parquet_carries_metadata(tmp_path, X):
    with Store.create(tmp_path / "s", KernelEncoder(64, random_state=0).fit(X)) as store:
        store.add(X[:3], metadata=[{"colour": "red"}, None, [1, 2]])
    export(tmp_path / "s", tmp_path / "out.parquet", "parquet")
    import_codes(tmp_path / "out.parquet", tmp_path / "again")
    assert everything(tmp_path / "again")[3] == [{"colour": "red"}, None, [1, 2]]


@pytest.mark.parametrize("form", [*FORMS, "fvecs"])
def test_an_export_does_not_overwrite(store, tmp_path, form):
    if form == "faiss":
        pytest.importorskip("faiss")
    target = tmp_path / f"out.{form}"
    export(store, target, form)
    before = target.read_bytes()
    with pytest.raises(InvalidInputError, match="exists already"):
        export(store, target, form)
    with Store.open(store, mode="a") as opened:
        opened.delete([3])
    export(store, target, form, overwrite=True)
    assert target.read_bytes() != before


def test_what_a_former_export_left_is_removed(store, named, tmp_path):
    export(named, tmp_path / "out.npy", "npy")
    assert (tmp_path / "out.ids.txt").is_file()
    export(store, tmp_path / "out.npy", "npy", overwrite=True)
    assert not (tmp_path / "out.ids.txt").exists()
    assert import_codes(tmp_path / "out.npy", tmp_path / "again").items == 300


def test_exports_follow_the_umask(store, tmp_path):
    old = os.umask(0o077)
    try:
        done = export(store, tmp_path / "out.parquet", "parquet")
    finally:
        os.umask(old)
    assert {stat.S_IMODE(os.stat(name).st_mode) for name in done.files} == {0o600}


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_a_flipped_bit_never_gives_other_codes_or_ids(store, tmp_path, form):
    """Each of 150 single flips is refused, or harmless; a refused import leaves no store behind."""
    target = tmp_path / f"out.{form}"
    done = export(store, target, form)
    truth = everything(store)
    files = [target, *([tmp_path / "out.ids.npy"] if form == "npy" else [])]
    assert all(str(file) in done.files for file in files)
    rng = np.random.default_rng(5)
    refused = 0
    for number in range(150):
        file = files[number % len(files)]
        whole = file.read_bytes()
        flip(file, int(rng.integers(8 * len(whole))))
        try:
            import_codes(target, tmp_path / f"again{number}")
        except (InvalidInputError, CorruptExportError):
            refused += 1
            assert not (tmp_path / f"again{number}").exists()
        else:
            found = everything(tmp_path / f"again{number}")
            assert found[0] == truth[0]
            np.testing.assert_array_equal(found[1], truth[1])
        file.write_bytes(whole)
    assert refused > 100
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_damage_says_what_differs(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    flip(tmp_path / "out.npy", 8 * 2000)
    with pytest.raises(CorruptExportError, match="other codes than were written"):
        import_codes(tmp_path / "out.npy", tmp_path / "again")
    (tmp_path / "out.export.json").write_text("{}")
    with pytest.raises(CorruptExportError, match=r"record of .* is damaged"):
        import_codes(tmp_path / "out.npy", tmp_path / "again")
    (tmp_path / "out.export.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(CorruptExportError, match="format 2"):
        import_codes(tmp_path / "out.npy", tmp_path / "again")


def test_a_foreign_file_says_that_it_could_not_be_checked(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    (tmp_path / "out.export.json").unlink()
    done = import_codes(tmp_path / "out.npy", tmp_path / "again")
    assert not done.checked
    assert "its codes were not checked" in done.notes[0]


def test_a_failed_import_leaves_an_open_store_as_it_was(named, tmp_path):
    export(named, tmp_path / "out.npy", "npy")
    before = everything(named)
    with pytest.raises(InvalidInputError, match="already"):
        import_codes(tmp_path / "out.npy", named)
    assert everything(named)[0] == before[0]


def test_a_store_that_keeps_vectors_wants_them(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    with pytest.raises(InvalidInputError, match="keeps the vectors of its items"):
        import_codes(tmp_path / "out.npy", store)


def test_ids_may_come_from_a_file(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    (tmp_path / "names.txt").write_text("".join(f"n{i}\n" for i in range(300)))
    import_codes(tmp_path / "out.npy", tmp_path / "again", ids=tmp_path / "names.txt")
    assert everything(tmp_path / "again")[0][0] == "n0"
    (tmp_path / "short.txt").write_text("1\n2\n")
    with pytest.raises(InvalidInputError, match="has 2 ids"):
        import_codes(tmp_path / "out.npy", tmp_path / "third", ids=tmp_path / "short.txt")


def parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1]}, "has no column `code`"),
        ({"code": [b"ab", b"abc"]}, "different lengths"),
        ({"code": [b"ab", None]}, "`code` of .* has 1 missing values"),
        ({"code": [1, 2]}, "`code` of .* holds int64; expected bytes"),
        ({"code": [b"ab", b"cd"], "id": [1.5, 2.0]}, "`id` of .* holds double; expected integers"),
        ({"code": [b"ab", b"cd"], "id": [1, None]}, "`id` of .* has 1 missing values"),
        ({"code": [b"ab", b"cd"], "metadata": ["{", None]}, "is not JSON"),
        ({"code": [b"ab", b"cd"], "vector": [[1.0], [1.0, 2.0]]}, "lists of different lengths"),
        ({"code": [b"ab", b"cd"], "vector": ["a", "b"]}, "`vector` of .* holds string"),
    ],
)
def test_null_or_mistyped_columns_are_named(tmp_path, X, columns, message):
    path = parquet(tmp_path / "x.parquet", **columns)
    KernelEncoder(16, random_state=0).fit(X).save(tmp_path / "x.encoder")
    with pytest.raises(InvalidInputError, match=message):
        import_codes(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_files_that_are_no_codes(store, tmp_path):
    for name, content, message in (
        ("a.npy", np.zeros((3, 25)), "expected codes, uint8"),
        ("b.npy", np.zeros((3, 25), np.int8), "codes minus 128"),
        ("c.npy", np.zeros((0, 25), np.uint8), "holds no codes"),
    ):
        np.save(tmp_path / name, content)
        with pytest.raises(InvalidInputError, match=message):
            import_codes(tmp_path / name, store)
    with pytest.raises(DataNotFoundError, match="does not exist"):
        import_codes(tmp_path / "nowhere.npy", store)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(InvalidInputError, match="must end in"):
        import_codes(tmp_path / "x.txt", store)
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(InvalidInputError, match="not a readable Parquet file"):
        import_codes(tmp_path / "x.parquet", store)


def test_parquet_that_pyarrow_cannot_make_sense_of_is_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    codes, ids = pyarrow.array([b"a" * 8] * 6, pyarrow.binary(8)), pyarrow.array(range(6))
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.Table.from_arrays([codes, codes, ids], names=["code", "code", "id"]), path)
    with pytest.raises(InvalidInputError, match="more than one column `code`"):
        import_codes(path, tmp_path / "new")
    parquet.write_table(pyarrow.table({"code": codes, "id": ids}), path)
    whole = path.read_bytes()
    for place in range(len(whole) - 180, len(whole) - 140):  # its schema: some make integers of 0 or 80 bits
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            import_codes(path, tmp_path / f"new{place}")
        except (InvalidInputError, CorruptExportError):
            assert not (tmp_path / f"new{place}").exists()


def test_faiss_files_are_read_in_a_child(store, tmp_path):
    faiss = pytest.importorskip("faiss")
    export(store, tmp_path / "out.faiss", "faiss")
    whole = (tmp_path / "out.faiss").read_bytes()
    for content in (b"", b"no index", whole[:60], whole[:-7], b"IBxF" + b"\xff" * 60):
        (tmp_path / "out.faiss").write_bytes(content)
        with pytest.raises((InvalidInputError, CorruptExportError), match=r"out\.faiss"):
            import_codes(tmp_path / "out.faiss", tmp_path / "again")
        assert not (tmp_path / "again").exists()
    quantizer = faiss.IndexBinaryFlat(200)
    inverted = faiss.IndexBinaryIVF(quantizer, 200, 2)
    inverted.train(np.random.default_rng(0).integers(0, 256, (50, 25)).astype(np.uint8))
    faiss.write_index_binary(inverted, str(tmp_path / "out.faiss"))
    with pytest.raises(InvalidInputError, match="only IndexBinaryFlat keeps plain codes"):
        import_codes(tmp_path / "out.faiss", tmp_path / "again")


def test_modules_in_the_current_folder_are_not_run(store, tmp_path, monkeypatch):
    # What came beside a file must not be taken for the library that reads it.
    pytest.importorskip("faiss")
    export(store, tmp_path / "out.faiss", "faiss")
    for module in ("faiss", "numpy", "resource"):
        (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    try:
        assert import_codes(tmp_path / "out.faiss", tmp_path / "again").checked
    finally:
        assert not (tmp_path / "ran").exists()


def test_a_store_of_images_keeps_its_recipe(tmp_path):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(2)
    (tmp_path / "photos").mkdir()
    for number in range(6):
        image = cv2.resize(rng.integers(0, 255, (12, 12), np.uint8), (96, 96), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(tmp_path / "photos" / f"{number}.png"), image)
    encode(tmp_path / "photos", tmp_path / "store", Settings(bits=128, centers=4, describe="vlad"))
    export(tmp_path / "store", tmp_path / "out.parquet", "parquet")
    import_codes(tmp_path / "out.parquet", tmp_path / "again")
    old, new = read_recipe(tmp_path / "store"), read_recipe(tmp_path / "again")
    assert new.settings == old.settings
    np.testing.assert_array_equal(new.codebook, old.codebook)
    flip(tmp_path / "out.codebook.npy", 4000)
    with pytest.raises(CorruptExportError, match=r"codebook\.npy is damaged"):
        import_codes(tmp_path / "out.parquet", tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_digests_do_not_depend_on_batches():
    ids, codes = ["a", "bc", "ä"], np.arange(6, dtype=np.uint8).reshape(3, 2)
    whole, parts = Digest(), Digest()
    whole.update(ids, codes)
    for i in range(3):
        parts.update(ids[i : i + 1], codes[i : i + 1])
    assert whole.parts() == parts.parts()
    other = Digest()
    other.update(["ab", "c", "ä"], codes)
    assert other.parts()["ids"] != whole.parts()["ids"]
    assert other.parts()["codes"] == whole.parts()["codes"]


@pytest.mark.parametrize(
    ("column", "part"), [("id", "ids"), ("vector", "vectors"), ("metadata", "metadata"), ("code", "code")]
)
def test_a_column_whose_name_was_damaged_is_missed(store, tmp_path, X, column, part):
    """A flipped bit in the name of a column makes it an unknown one: its items must not lose what was in it."""
    arrow = pytest.importorskip("pyarrow.parquet")
    with Store.open(store, "a") as opened:
        opened.upsert(X[:1], ids=[0], metadata=[{"colour": "red"}])
    export(store, tmp_path / "out.parquet", "parquet")
    table = arrow.read_table(tmp_path / "out.parquet")
    renamed = table.rename_columns([f"{name}x" if name == column else name for name in table.column_names])
    arrow.write_table(renamed.replace_schema_metadata(table.schema.metadata), tmp_path / "out.parquet")
    with pytest.raises((CorruptExportError, InvalidInputError), match=f"other {part}|no column `{part}`"):
        import_codes(tmp_path / "out.parquet", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_ids_that_an_export_had_are_missed_unless_others_are_given(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    (tmp_path / "out.ids.npy").unlink()
    with pytest.raises(CorruptExportError, match="other ids than were written"):
        import_codes(tmp_path / "out.npy", tmp_path / "again")
    np.save(tmp_path / "mine.npy", np.arange(500, 500 + len(Store.open(store))))
    import_codes(tmp_path / "out.npy", tmp_path / "again", ids=tmp_path / "mine.npy")
    assert 500 in Store.open(tmp_path / "again")


def test_codes_and_an_encoder_that_did_not_make_them(store, tmp_path):
    export(store, tmp_path / "out.npy", "npy")
    other = AngleEncoder(n_bits=Store.open(store).n_bits, projection="dense", random_state=9)
    other.fit(np.random.default_rng(0).standard_normal((20, 6))).save(tmp_path / "other.encoder")
    with pytest.raises(CorruptExportError, match="do not belong together"):
        import_codes(tmp_path / "out.npy", tmp_path / "again", encoder=tmp_path / "other.encoder")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": np.array([1, 2**64 - 1], np.uint64)}, "must fit int64"),
        ({"metadata": ["[" * 100_000] * 2}, "not JSON"),
    ],
)
def test_columns_that_no_store_can_hold(tmp_path, columns, words):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"code": [b"12345678"] * 2} | columns), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=words):
        import_codes(tmp_path / "x.parquet", tmp_path / "again")
    assert not (tmp_path / "again").exists()
