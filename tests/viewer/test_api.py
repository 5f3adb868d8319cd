"""What the page is told: the same as the library says, in plain values."""

import csv
import io

import numpy as np
import pytest

import bilsh
from bilsh.workflows import collection as held
from viewer.conftest import CLUSTERS, ODD_IDS, Asked, clusters


def test_facts_of_a_store(asked, places):
    facts = asked("vectors").json("/store")
    assert facts["items"] == 240
    assert facts["ladder"] == [64, 128, 256]
    assert facts["quantity"] == "cosine"
    assert facts["vectors"]
    assert facts["heat_maps"]
    assert facts["news"] is None
    assert str(places) not in str(facts)
    assert asked("kernel").json("/store")["ladder"] == [64, 128, 200]
    assert asked("names").json("/store")["no_truth"].startswith("this store keeps only codes")


@pytest.mark.parametrize("name", ["vectors", "kernel", "names", "foreign"])
def test_neighbours_are_those_of_the_library(asked, places, name):
    answer = asked(name).json("/neighbours?item=7&k=5")
    with bilsh.Store.open(places / name) as store:
        item = store.ids[7]
        hits = store.search(ids=[item], k=5, mode="hamming")
        marks = None if hits.quantity is None else store.background().stands_out(hits)[0].tolist()
        told = answer["ladder"][-1]["neighbors"]
        assert [hit["id"] for hit in told] == [str(name) for name in hits.ids[0]]
        assert [hit["distance"] for hit in told] == hits.distances[0].tolist()
        if hits.quantity is None:
            assert told[0]["similarity"] is told[0]["interval"] is told[0]["stands_out"] is None
        else:
            assert [hit["similarity"] for hit in told] == pytest.approx(hits.similarity[0].tolist(), rel=1e-6)
            assert np.allclose([hit["interval"] for hit in told], hits.interval[0])
            assert [hit["stands_out"] for hit in told] == marks
    assert [step["bits"] for step in answer["ladder"]] == asked(name).json("/store")["ladder"]
    assert sum(answer["ladder"][0]["histogram"]["counts"]) == answer["items"]


def test_true_ranks_and_what_was_missed(asked):
    X = clusters()
    centred = (X - X.mean(axis=0)).reshape(len(X), -1)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[3]), kind="stable")[1:]
    answer = asked("vectors").json("/neighbours?item=3&k=10")
    for step in answer["ladder"]:
        found = [hit["row"] for hit in step["neighbors"]]
        assert [hit["true_rank"] for hit in step["neighbors"]] == [
            order.tolist().index(row) + 1 for row in found
        ]
        assert [hit["row"] for hit in step["missed"]] == [
            row for row in order[:10].tolist() if row not in found
        ]
        for hit in step["neighbors"]:
            assert hit["true_similarity"] == pytest.approx(unit[3] @ unit[hit["row"]], abs=1e-5)
    exact = asked("vectors").json("/neighbours?item=3&k=10&mode=reranked")["ladder"][-1]
    assert exact["neighbors"][0]["exact_distance"] > 0


def test_prefixes_find_less_and_know_less(asked):
    answer = asked("vectors").json("/neighbours?item=3&k=9")
    width = [
        np.mean([hit["interval"][1] - hit["interval"][0] for hit in step["neighbors"]])
        for step in answer["ladder"]
    ]
    assert width[0] > width[-1]
    assert all(hit["stands_out"] for hit in answer["ladder"][-1]["neighbors"])


def test_modes_that_need_more_than_codes_say_so(asked):
    assert "keeps only codes" in asked("names").json("/neighbours?item=0&mode=asymmetric", 400)["error"]
    assert "keeps only codes" in asked("names").json("/neighbours?item=0&mode=reranked", 400)["error"]


@pytest.mark.parametrize("mode", ["hamming", "asymmetric", "reranked"])
def test_an_uploaded_array_finds_what_the_library_finds(asked, places, mode):
    client = asked("vectors")
    new = clusters(seed=9)[5]
    key = upload(client, new).json()["query"]
    answer = client.json(f"/neighbours?query={key}&k=4&mode={mode}")
    with bilsh.Store.open(places / "vectors") as store:
        way = (
            {"mode": "hamming"} if mode == "hamming" else {"mode": "asymmetric", "rerank": mode == "reranked"}
        )
        hits = store.search(new[None], 4, **way)
    assert [hit["row"] for hit in answer["ladder"][-1]["neighbors"]] == hits.ids[0].tolist()
    assert client.get(f"/queries/{key}/thumb").headers["content-type"] == "image/webp"


def upload(client, array, name="q.npy"):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return client.client.post(f"/api/v1/queries?name={name}", content=buffer.getvalue())


def test_of_several_rows_the_first_is_taken_and_that_is_said(asked):
    client = asked("vectors")
    key = upload(client, clusters(3)).json()["query"]
    assert client.json(f"/neighbours?query={key}")["query"]["note"] == "the first of 3 rows"
    flat = upload(client, clusters(1).reshape(-1)).json()["query"]
    assert client.json(f"/neighbours?query={flat}")["query"]["note"] is None


def test_only_the_last_uploads_are_kept(asked):
    client = asked("vectors")
    first = upload(client, clusters(1)).json()["query"]
    for _ in range(16):
        upload(client, clusters(1))
    assert "Drop the file again" in client.json(f"/neighbours?query={first}", 400)["error"]


def test_an_uploaded_photograph_finds_itself(photo_client, photos):
    data = (photos / "in" / "photo 07.png").read_bytes()
    key = photo_client.client.post("/api/v1/queries?name=p.png", content=data).json()["query"]
    hit = photo_client.json(f"/neighbours?query={key}&k=1")["ladder"][-1]["neighbors"][0]
    assert hit["id"] == "photo 07.png"
    assert hit["distance"] == 0


def test_a_pair_narrows_and_holds_the_truth(asked, places):
    answer = asked("vectors").json("/pair?a=3&b=27")
    with bilsh.Store.open(places / "vectors") as store:
        codes = store.get([3, 27]).codes
        told = bilsh.estimate(codes[0], codes[1], store.encoder, of="cosine")
    last = answer["ladder"][-1]
    assert last["similarity"] == pytest.approx(float(told.value))
    assert last["interval"] == pytest.approx(told.interval.tolist())
    assert last["similarity"] == pytest.approx(answer["exact"], abs=0.2)
    widths = [step["interval"][1] - step["interval"][0] for step in answer["ladder"]]
    assert widths[-1] < widths[0]
    assert asked("names").json("/pair?a=0&b=1")["exact"] is None
    assert asked("foreign").json("/pair?a=0&b=1")["ladder"][-1]["similarity"] is None


def test_groups_are_stars(asked):
    answer = asked("vectors").until_done("/groups?min=0.8")
    assert answer["grouped"] == 240
    rows = [g["centre"]["row"] for g in answer["groups"]] + [
        m["row"] for g in answer["groups"] for m in g["members"]
    ]
    assert len(rows) == len(set(rows)) == 240
    for group in answer["groups"]:
        pair = asked("vectors").json(f"/pair?a={group['centre']['row']}&b={group['members'][-1]['row']}")
        assert pair["ladder"][-1]["similarity"] >= 0.8
        assert {m["row"] % CLUSTERS for m in group["members"]} == {group["centre"]["row"] % CLUSTERS}
    assert asked("vectors").until_done("/groups?min=1")["groups"] == []
    assert "no measure" in asked("foreign").json("/groups", 400)["error"]


def test_the_curve_recommends_and_never_more_than_the_data(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    answer = asked("vectors").until_done("/curve")
    assert max(point["n_bytes"] for point in answer["points"]) <= answer["item_bytes"] == 120
    place = answer["targets"].index(0.6)
    for by, picks in answer["picks"].items():
        if picks[place] is not None:
            assert answer["points"][picks[place]]["expected"][by] >= 0.6
    assert "bilsh view x.npy" in asked("names").json("/curve", 400)["error"]


def test_before_there_is_a_store(places, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    client = Asked(places / "x.npy")
    assert client.json("/store")["kind"] == "array"
    assert client.until_done("/curve")["of"] == 240
    assert "bilsh encode" in client.json("/neighbours?item=0", 400)["error"]


def test_meaning_is_the_law(asked):
    angle = asked("vectors").json("/meaning?bits=1024")
    s = np.array(angle["similarity"])
    assert np.allclose(angle["fraction"], np.arccos(s) / np.pi, atol=1e-5)
    assert angle["bounds"] is None
    kernel = asked("vectors").json("/meaning?bits=64&kernel=gaussian&thresholds=random")
    lower, upper = kernel["bounds"]["lower"], kernel["bounds"]["upper"]
    assert (np.array(lower) <= np.array(kernel["fraction"]) + 1e-6).all()
    assert (np.array(kernel["fraction"]) <= np.array(upper) + 1e-6).all()
    wide, narrow = (asked("vectors").json(f"/meaning?bits={bits}") for bits in (64, 4096))
    assert wide["high"][30] - wide["low"][30] > 4 * (narrow["high"][30] - narrow["low"][30])


def test_items_are_found_by_name_and_caption(asked):
    client = asked("names")
    assert client.json("/items?q=item 010")["items"] == [{"row": 10, "id": "item 010", "caption": None}]
    assert client.json("/items?q=ÜNÏ")["items"][0]["id"] == ODD_IDS[4]
    assert {item["row"] % CLUSTERS for item in client.json("/items?q=label 7&limit=100")["items"]} == {7}
    assert client.json("/items?q=nothing like it")["items"] == []
    rest = client.json("/items?q=item&after=100&limit=2")["items"]
    assert [item["row"] for item in rest] == [101, 102]


def test_captions_are_metadata(asked):
    answer = asked("names").json("/neighbours?item=3&k=30")
    assert answer["captions"]["3"] == "label 3 · note <img src=x onerror=alert(1)>"


def test_the_table_for_spreadsheets(asked):
    answer = asked("names").get("/neighbours.csv?item=1&k=3&bits=128")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert {row["query"] for row in rows} == {"'=1+1"}, "no spreadsheet may take an id for a formula"
    assert {row["bits"] for row in rows} == {"128"}
    assert "bits must be one of" in asked("names").json("/neighbours.csv?item=1&bits=100", 400)["error"]


def test_thumbnails_are_made_once_and_small(photo_client):
    first = photo_client.get("/thumb/3/160")
    assert first.headers["content-type"] == "image/webp"
    assert "immutable" in first.headers["cache-control"]
    assert len(first.content) <= 12_000
    photo_client.session.pictures = None
    assert photo_client.get("/thumb/3/160").content == first.content
    from bilsh.workflows.pictures import Pictures

    photo_client.session.pictures = Pictures(photo_client.session.items)


def test_heat_maps_where_there_are_no_photographs(asked, places, photos):
    import cv2

    image = cv2.imdecode(
        np.frombuffer(asked("vectors").get("/thumb/3/160").content, np.uint8), cv2.IMREAD_COLOR
    )
    assert image.shape[:2] == (156, 130), "blocks of 26 pixels for a matrix (6, 5)"
    assert asked("names").json("/thumb/3/160", 404)["error"] == "there is no picture of this item."
    numbered = Asked(places / "vectors", photos / "in")
    assert numbered.session.pictures.kind(3) == "photo"
    assert numbered.session.pictures.kind(100) == "heat map"


def test_an_empty_store_says_so(asked):
    assert asked("empty").json("/store")["items"] == 0
    assert "empty" in asked("empty").json("/neighbours?item=0", 400)["error"]


def test_large_stores_and_vectors_are_refused_or_left_out(places, monkeypatch):
    monkeypatch.setattr(held, "VECTOR_BYTES", 100)
    facts = Asked(places / "vectors").json("/store")
    assert not facts["vectors"]
    assert "more than is held in memory" in facts["no_truth"]
    monkeypatch.setattr(held, "MOST_BYTES", 100)
    with pytest.raises(bilsh.InvalidInputError, match="GB of codes"):
        held.Collection(places / "vectors")


def test_groups_of_more_items_use_shorter_codes_or_are_refused(asked, monkeypatch):
    from bilsh.workflows import groups

    items = asked("vectors").session.items
    monkeypatch.setattr(groups, "WORK", 240 * 240 * 16)
    assert groups.stars(items, 0.9)["bits"] == 128
    monkeypatch.setattr(groups, "WORK", 1000)
    with pytest.raises(bilsh.InvalidInputError, match="too many pairs"):
        groups.stars(items, 0.9)
    monkeypatch.undo()
    monkeypatch.setattr(groups, "MOST_PAIRS", 10)
    with pytest.raises(bilsh.InvalidInputError, match="higher similarity"):
        groups.stars(items, 0.5)
