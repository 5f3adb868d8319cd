"""The page in a real browser on 4,046 photographs: every page, every control. `make test-browser` runs it."""

import csv
import os
from pathlib import Path

import pytest

from viewer.browser import AXE, LOOKS, Tab, look_at_all, needs_browser, viewed

pytestmark = needs_browser

PHOTOS = Path(os.environ.get("BILSH_DATA", "")) / "flickr"
COUNT = 4046
NAME = "1045521051_108ebc19be.jpg"
"""Photograph in row 17."""


@pytest.fixture(scope="module")
def address():
    """A store of 4,046 x 16,384 bits with its vectors, kept beside what is built: encoding takes half a minute."""
    if not PHOTOS.is_dir():
        pytest.skip("needs photographs in BILSH_DATA/flickr")
    from bilsh.store.recipe import Settings
    from bilsh.workflows import ingest

    place = AXE.parents[3] / "photographs"
    ingest.encode(
        PHOTOS, place, Settings(bits=16384, describe="hog-color", centers=0, keep_vectors="float32"), jobs=2
    )
    with viewed(place) as found:
        yield found


@pytest.fixture
def tab(browser, address):
    opened = Tab(browser, address)
    yield opened
    assert opened.complaints == []
    assert opened.foreign == []
    opened.close()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_on_photographs(browser, address, width, scheme):
    look_at_all(browser, address, "photos", width, scheme)


def test_pictures_arrive_small_and_move_nothing(tab):
    sizes = []
    tab.page.on("response", lambda one: "/thumb/" in one.url and one.url.count("/160") and sizes.append(one))
    tab.open("/?item=17&k=96")
    there, broken = tab.pictures()
    assert there >= 97
    assert broken == []
    lengths = [len(one.body()) for one in sizes]
    assert len(lengths) >= 96
    assert sum(lengths) / len(lengths) <= 12_000
    assert tab.shift < 0.01
    tab.check()


def test_bits_modes_and_two_settings_side_by_side(tab):
    tab.open("/?item=17")
    assert tab.text("h1") == "24 nearest at 16,384 bits"
    assert f"{COUNT:,}" in tab.text(".facts")
    asked = []
    tab.page.on("request", lambda request: "/api/v1/neighbours" in request.url and asked.append(request.url))
    slider = tab.page.get_by_label("Bits used")
    slider.press("Home")
    tab.page.locator("h1", has_text="24 nearest at 64 bits").wait_for()
    assert tab.page.locator(".hit-tile.grey").count() >= 12, "64 bits tell few of the photographs apart"
    assert tab.page.locator(".missed li").count() == 12
    slider.press("End")
    tab.page.keyboard.press("[")
    tab.page.locator("h1", has_text="at 8,192 bits").wait_for()
    tab.page.locator("h1").click()
    tab.page.keyboard.press("]")
    tab.page.locator("h1", has_text="at 16,384 bits").wait_for()
    assert asked == [], "one answer holds all lengths"
    slider.press("Home")
    for name, mode in (("real values", "asymmetric"), ("re-ranked", "reranked"), ("bits", None)):
        tab.page.get_by_role("radio", name=name, exact=True).check(force=True)
        tab.settle()
        assert tab.params().get("mode") == mode
        assert tab.page.locator(".hit-tile").count() == 24
    for choice in ("6", "12", "48", "24"):
        tab.page.get_by_label("Show").select_option(choice)
        tab.page.locator("h1", has_text=f"{choice} nearest").wait_for()
    for choice, title in (
        ("full", "all 16,384 bits"), ("asymmetric", "by real values"), ("reranked", "by re-ranked"),
    ):  # fmt: skip
        tab.page.get_by_label("Beside").select_option(choice)
        tab.page.locator("h2", has_text=f"B: {'by bits, ' if choice == 'full' else ''}{title}").wait_for()
        tab.settle()
        assert tab.page.locator(".grid").count() == 2
        assert tab.page.locator(".badge.only").count() >= 2
    tab.check(shifts=False)
    tab.page.reload()
    tab.settle()
    assert tab.page.get_by_label("Beside").input_value() == "reranked"


def test_walking_finding_and_back(tab):
    tab.open("/?item=17&bits=1024")
    assert tab.text(".who strong") == NAME
    tab.page.keyboard.press("ArrowLeft")
    assert tab.params()["item"] == "16"
    tab.page.get_by_role("button", name="Next item").click()
    tab.page.get_by_role("button", name="Next item").click()
    assert tab.params()["item"] == "18"
    tab.page.get_by_role("button", name="Previous item").click()
    tab.page.keyboard.press("r")
    tab.page.get_by_role("button", name="Random").click()
    tab.page.locator(".hit-tile > a").nth(5).click()
    tab.settle()
    here = tab.page.url
    tab.page.go_back()
    tab.page.go_back()
    tab.page.go_back()
    assert tab.params() == {"item": "17", "bits": "1024"}
    for _ in range(3):
        tab.page.go_forward()
    assert tab.page.url == here
    box = tab.page.get_by_role("combobox", name="Find an item by name")
    box.fill("108ebc")
    tab.page.get_by_role("option").first.wait_for()
    box.press("ArrowDown")
    box.press("Enter")
    assert tab.params()["item"] == "17"
    tab.settle()
    assert tab.pictures()[1] == []


def test_a_photograph_is_dropped(tab):
    """It finds itself; its picture is shown; what is no picture is refused."""
    choose = tab.page.locator("input[type=file]")
    choose.set_input_files(PHOTOS / NAME)
    tab.page.locator(".who strong", has_text=NAME).wait_for()
    tab.settle()
    assert tab.text(".hit-tile strong") == "1.00"
    assert NAME in tab.text(".hit-tile .clip")
    assert tab.page.evaluate("document.querySelector('.asked img').naturalWidth") > 100
    pixels = "getComputedStyle(document.querySelector('.asked img')).imageRendering"
    assert tab.page.evaluate(pixels) == "auto", "a photograph is no heat map"
    tab.check(shifts=False)
    choose.set_input_files({"name": "bad.jpg", "mimeType": "image/jpeg", "buffer": b"\xff\xd8 no picture"})
    tab.page.locator(".problem", has_text=".").wait_for()
    assert all("400" in text for text in tab.complaints)
    tab.complaints.clear()


def test_hits_as_csv_and_table(tab):
    tab.open("/?item=17&bits=512&mode=asymmetric")
    with tab.page.expect_download() as saved:
        tab.page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(Path(saved.value.path()).read_text().splitlines()))
    assert len(rows) == 24
    assert rows[0]["query"] == NAME
    table = tab.table("The hits as a table")
    seen = [line.split("\t")[1] for line in table.all_inner_texts()]
    assert seen == [row["id"] for row in rows]
    tab.page.get_by_role("link", name="What do these numbers mean?").click()
    tab.page.locator("h1", has_text="of 512 bits differ").wait_for()


def test_a_pair_of_photographs(tab):
    tab.open("/?item=17")
    tab.page.get_by_role("link", name="Compare with").nth(2).click()
    tab.page.locator("h1", has_text="Their kernel value is").wait_for()
    a, b = tab.params()["a"], tab.params()["b"]
    assert tab.pictures() == [2, []]
    tab.page.get_by_role("button", name="Swap").click()
    assert (tab.params()["a"], tab.params()["b"]) == (b, a)
    tab.page.get_by_role("button", name="Blink").click()
    tab.page.locator(".blink h2", has_text="B").wait_for()
    tab.page.locator(".blink h2", has_text="A").wait_for()
    tab.page.get_by_role("button", name="Stop blinking").click()
    tab.page.get_by_role("combobox", name="Choose B by name").fill(NAME[:6])
    tab.page.get_by_role("option").first.click()
    assert tab.params()["b"] == a
    table = tab.table("The estimates as a table")
    assert table.count() == 9
    tab.page.locator(".side .who a").first.click()
    tab.page.locator("h1", has_text="24 nearest").wait_for()


def test_bits_for_photographs(tab):
    tab.open("/bits")
    for name, by in (("bits", "hamming"), ("re-ranked", "reranked"), ("real values", "asymmetric")):
        tab.page.get_by_role("radio", name=name, exact=True).check(force=True)
        assert tab.params()["by"] == by
    slider = tab.page.get_by_label("Wanted recall")
    slider.press("Home")
    tab.page.locator("h1", has_text="of the nearest").wait_for()
    few = tab.text(".advice strong")
    slider.press("End")
    tab.page.locator(".advice dd", has_text="of 0.99 wanted").wait_for()
    assert tab.text(".advice strong") != few
    assert tab.params()["target"] == "0.99"
    assert tab.text(".advice code").startswith("bilsh encode flickr/ -o store/")
    table = tab.table("All that was measured")
    assert table.count() >= 8
    tab.check(shifts=False)


def test_groups_of_photographs(tab):
    tab.open("/groups")
    slider = tab.page.get_by_label("At least this kernel value")
    held = int(tab.text("h1").split(" hold ")[1].split()[0].replace(",", ""))
    assert 0 < held <= COUNT
    assert tab.pictures()[1] == []
    slider.press("ArrowLeft")
    tab.settle()
    assert int(tab.text("h1").split(" hold ")[1].split()[0].replace(",", "")) >= held
    if tab.page.locator(".star").count() == 24:
        tab.page.get_by_role("button", name="Show more groups").click()
        assert tab.page.locator(".star").count() > 24
    tab.check(shifts=False)
    tab.page.get_by_role("link", name="Compare").first.click()
    tab.page.locator("h1", has_text="Their kernel value is").wait_for()
    tab.page.go_back()
    tab.settle()
    tab.page.locator(".centre a").first.click()
    tab.page.locator("h1", has_text="24 nearest").wait_for()


def test_meaning_of_kernel_codes(tab):
    tab.open("/meaning")
    assert "of 16,384 bits" in tab.text("h1")
    for name, key, value in (
        ("random", "thresholds", "random"), ("zero", "thresholds", "zero"), ("angle", "kernel", "angle"),
        ("kernel", "kernel", "gaussian"),
    ):  # fmt: skip
        tab.page.get_by_role("radio", name=name, exact=True).check(force=True)
        tab.settle()
        assert tab.params()[key] == value
    tab.page.get_by_label("If the kernel value is").press("Home")
    tab.page.locator("h1", has_text="Kernel value 0.01").wait_for()
    tab.page.get_by_label("Bits", exact=True).press("End")
    tab.page.locator("h1", has_text="of 65,536 bits").wait_for()
