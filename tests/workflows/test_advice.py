"""Which encoder and how many bits: measured against exact neighbours, on data where the answer is known."""

import json
import warnings

import cv2
import numpy as np
import pytest

import bilsh
import encoder_choice
from bilsh.errors import EncoderAdviceWarning, InvalidInputError
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.workflows import recall as recall_module
from bilsh.workflows.advice import advise, measured_choice
from bilsh.workflows.choice import EncoderChoice, check_encoder, choose_encoder
from bilsh.workflows.curves import bits_curve
from bilsh.workflows.recall import KINDS, Bench, Sample


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BILSH_CACHE", str(tmp_path / "cache"))


def skewed(n=1000, d=24, seed=0):
    """Norms say as much as directions: angles lose."""
    return np.exp(np.random.default_rng(seed).normal(size=(n, d))).astype(np.float32)


def sphere(n=1000, d=24, seed=0):
    """Directions say all, and short codes of angles tell them better."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def test_the_encoder_depends_on_data_and_length():
    assert choose_encoder(skewed(), 1024).encoder == "kernel"
    assert choose_encoder(sphere(), 64).encoder == "angle"


def test_the_rule_that_grew_with_the_rows_is_gone():
    # Norm ratios below 1.7, which once meant angle codes; longer kernel codes find more.
    X = encoder_choice.digits()
    assert {choose_encoder(X[:n], 1024).encoder for n in (400, 1797)} == {"kernel"}


def test_the_choice_says_what_was_measured_and_repeats():
    X = skewed()
    choice = choose_encoder(X, 512)
    assert choice == choose_encoder(X, 512)
    assert choice != choose_encoder(X, 512, seed=1)
    assert (choice.rows, choice.of, choice.queries, choice.n_bits) == (1000, 1000, 500, 512)
    assert choice.gap == pytest.approx(choice.kernel.asymmetric - choice.angle.asymmetric)
    assert choice.gap > 5 * choice.error > 0
    assert "kernel codes: at 512 bits recall@10 is" in str(choice)
    encoder = choice.make(n_jobs=2)
    assert (type(encoder), encoder.n_bits, encoder.random_state) == (bilsh.KernelEncoder, 512, 0)
    assert choose_encoder(X, 512, mode="hamming").mode == "hamming"
    assert "of 9,000 rows" in str(choose_encoder(X, 64, of=9000))


def test_the_choice_is_remembered(tmp_path, monkeypatch):
    X, seen = skewed(600), []
    choice = choose_encoder(X, 128, cache=tmp_path / "a", progress=lambda what, *at: seen.append(at))
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)
    monkeypatch.setattr(recall_module, "exact_neighbors", None)  # nothing is measured again
    assert choose_encoder(X, 128, cache=tmp_path / "a") == choice
    with pytest.raises(TypeError):
        choose_encoder(X, 129, cache=tmp_path / "a")
    monkeypatch.undo()
    (note,) = (tmp_path / "a").iterdir()
    for damage in (b"", b"[]", b"{}", b'{"angle": {}, "kernel": {}}'):
        note.write_bytes(damage)
        assert choose_encoder(X, 128, cache=tmp_path / "a") == choice
    (tmp_path / "file").write_bytes(b"")
    assert choose_encoder(X, 128, cache=tmp_path / "file") == choice  # a cache that cannot be written


def test_recall_is_what_a_search_finds():
    X = skewed(400)
    sample = Sample(X, X.shape[1:], 50, len(X), 3)
    bench = Bench(sample, 10)
    truth = exact_neighbors(X[:50], X, 11)[0][:, 1:]
    for kind in KINDS:
        fitted = {"angle": bilsh.AngleEncoder, "kernel": bilsh.KernelEncoder}[kind](256, random_state=3)
        encoder = bench.encoder(kind, 256)
        if kind == "kernel":
            fitted.set_params(bandwidth=bench.bandwidth)
        codes = fitted.fit(X).transform(X)
        # The bench draws what a fit on the sample draws.
        np.testing.assert_array_equal(codes, encoder.transform(X))
        found = bench.found(bench.costs(encoder), 10)
        for mode in ("hamming", "asymmetric"):
            ids = bilsh.Index(codes, fitted).search(X[:50], 30, mode=mode).ids
            own = ids != np.arange(50)[:, None]
            first = np.array([row[keep][:10] for row, keep in zip(ids, own, strict=True)])
            # Ties at the end of a list may be broken either way.
            assert found[mode].mean() == pytest.approx(recall_of_ids(first, truth), abs=0.02)
        ids = bilsh.Index(codes, fitted, vectors=X).search(X[:50], 11, mode="asymmetric", rerank=True).ids
        assert found["reranked"].mean() == pytest.approx(recall_of_ids(ids[:, 1:], truth), abs=0.02)


def test_expected_recall_continues_the_fall(monkeypatch):
    X = skewed(4000, 16)
    whole = bits_curve(X, [128], times=False)
    monkeypatch.setattr(recall_module, "MOST_ROWS", 1024)
    part = bits_curve(X, [128], times=False)
    assert (part.rows, part.of) == (1024, 4000)
    for point, truth in zip(part.points, whole.points, strict=True):
        assert point.expected.asymmetric < point.at_10.asymmetric
        error = abs(point.expected.asymmetric - truth.at_10.asymmetric)
        assert error < abs(point.at_10.asymmetric - truth.at_10.asymmetric) + 0.02
        assert truth.expected == truth.at_10


def test_the_curve_never_takes_more_bytes_than_the_data():
    X = (skewed(500) * 10).clip(0, 255).astype(np.uint8)  # 24 bytes an item
    curve = bits_curve(X, times=False)
    assert curve.item_bytes == 24
    assert sorted({p.n_bits for p in curve.points}) == [64, 128]
    assert {p.n_bits for p in bits_curve(X[:, :4], times=False).points} == {32}
    assert {p.n_bits for p in bits_curve(X, [8, 512], times=False).points} == {8}


def test_the_curve_grows_and_names_the_shortest_code():
    curve = bits_curve(skewed(), times=False)
    assert [p.encoder for p in curve.points[:2]] == ["angle", "kernel"]
    kernel = [p for p in curve.points if p.encoder == "kernel"]
    for by in ("hamming", "asymmetric", "reranked"):
        at = [getattr(p.at_10, by) for p in kernel]
        assert at == sorted(at)
    assert all(p.at_10.reranked >= p.at_10.asymmetric for p in curve.points)
    pick = curve.shortest(0.5, "asymmetric")
    assert pick.expected.asymmetric >= 0.5
    assert all(p.expected.asymmetric < 0.5 for p in curve.points if p.n_bits < pick.n_bits)
    assert curve.shortest(1.1) is None
    assert curve.best("asymmetric").encoder == "kernel"
    assert f"| kernel | {pick.n_bits} |" in curve.table()
    with pytest.raises(InvalidInputError, match="by must be one of"):
        curve.shortest(0.5, "magic")


def test_the_curve_stops_where_it_reaches_what_is_wanted():
    whole = bits_curve(skewed(), times=False)
    pick = whole.shortest(0.6, "asymmetric")
    curve = bits_curve(skewed(), until=0.6, by="asymmetric", times=False)
    lengths = sorted({p.n_bits for p in curve.points})
    assert lengths[-1] <= 2 * pick.n_bits
    assert pick.n_bits * 3 // 4 in lengths  # half-way before it
    assert curve.shortest(0.6, "asymmetric").n_bits <= pick.n_bits


def test_times_are_told_and_not_compared(tmp_path):
    X = skewed(300)
    curve = bits_curve(X, [64], cache=tmp_path)
    assert curve.exact_seconds > 0
    assert all(p.times.encode > 0 and p.times.reranked > 0 for p in curve.points)
    assert curve == bits_curve(X, [64])
    again = bits_curve(X, [64], cache=tmp_path)
    assert again.points[0].times == curve.points[0].times


def test_a_warning_comes_only_when_it_was_measured():
    X = skewed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = bilsh.AngleEncoder(1024, random_state=0).fit(X)
        bilsh.lsh_angle(256, random_state=0).fit(X)
        assert isinstance(check_encoder(bilsh.KernelEncoder(1024, random_state=0).fit(X), X), EncoderChoice)
    with pytest.warns(EncoderAdviceWarning, match="kernel codes: at 1,024 bits"):
        check_encoder(encoder, X)


@pytest.mark.parametrize("n", [3, 5, 40])
def test_few_rows(n):
    X = skewed(n)
    assert choose_encoder(X, 64).rows == n
    assert bits_curve(X, [64], times=False).shortest(0.9).expected.reranked == 1
    with pytest.raises(InvalidInputError, match="at least 3"):
        choose_encoder(X[:2])


def test_duplicates_and_data_without_spread():
    same = np.ones((200, 8), dtype=np.float32)
    assert choose_encoder(same, 64).encoder in KINDS
    twice = np.repeat(skewed(100), 30, axis=0)
    assert choose_encoder(twice, 256).gap < 0.2


# -- advise -------------------------------------------------------------------------------------------------


def test_advice_for_an_array(tmp_path):
    path = tmp_path / "my vectors.npy"
    np.save(path, skewed(2000))
    seen = []
    found = advise(path, recall=0.6, progress=lambda *at: seen.append(at))
    assert found.by == "asymmetric"
    assert found.reached
    assert found.pick == found.curve.shortest(0.6, "asymmetric")
    assert found.pick.n_bytes <= found.item_bytes == 96
    assert found.uniform_bits > 10 * found.pick.n_bits
    assert {what for what, _, _ in seen} == {"measuring codes"}
    lines = found.lines(path)
    assert lines[0] == "2,000 items of shape (24,), 96 bytes each"
    assert any(line.startswith("advice       kernel codes of") for line in lines)
    assert any("this machine" in line for line in lines)
    assert lines[-1].startswith(f"next         bilsh encode '{path}' -o store/ --bits {found.pick.n_bits}")
    kept = advise(path, keep_vectors=True)
    assert kept.by == "reranked"
    assert kept.pick.n_bits < found.pick.n_bits
    assert kept.lines(path)[-1].endswith("--keep-vectors")
    json.dumps(found.to_json())


def test_advice_where_nothing_is_enough(tmp_path):
    np.save(tmp_path / "x.npy", (skewed(500) * 10).clip(0, 255).astype(np.uint8))
    found = advise(tmp_path / "x.npy", recall=1.0)
    assert not found.reached
    assert found.pick == found.curve.best("asymmetric")
    assert any("no code that was tried reaches 1" in line for line in found.lines("x.npy"))


def test_advice_names_what_is_wrong(tmp_path):
    X = skewed(50)
    X[7, 3] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInputError, match="row 7, column 3"):
        advise(tmp_path / "x.npy")
    with pytest.raises(InvalidInputError, match="recall must be > 0"):
        advise(tmp_path / "x.npy", recall=1.5)


def test_advice_for_a_folder_of_images(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(24):
        cv2.imwrite(str(tmp_path / f"{i}.png"), rng.integers(0, 256, (48, 48, 3), dtype=np.uint8))
    found = advise(tmp_path, describe="pixels", keep_vectors=True)
    assert (found.rows, found.item_shape) == (24, (32, 32))
    assert found.descriptor.name == "pixels"
    assert any(line.startswith("images by    pixels") for line in found.lines("photos"))
    assert found.lines("photos")[-1].endswith("--describe pixels")
    json.dumps(found.to_json())


def test_the_choice_of_encode_is_remembered_in_the_users_cache(tmp_path):
    X = skewed(400)
    assert measured_choice(X, 64) == choose_encoder(X, 64)
    assert len(list((tmp_path / "cache" / "advice").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("bits", encoder_choice.BITS)
@pytest.mark.parametrize("name", encoder_choice.SETS)
def test_the_chosen_encoder_is_never_much_below_the_better_one(name, bits):
    X = encoder_choice.SETS[name]()
    if X is None:
        pytest.skip(f"{name} is not here; set BILSH_DATA")
    judged = encoder_choice.judge(name, X, bits)
    assert judged.below <= encoder_choice.MOST_BELOW, judged
