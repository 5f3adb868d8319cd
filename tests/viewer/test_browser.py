"""The page in a real browser: every page and control, on digits. `make test-browser` runs it."""

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest

from viewer.browser import LOOKS, PAGES, Tab, look_at_all, needs_browser, viewed

pytestmark = needs_browser


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    from bilsh.experiments.demo import digits_store

    folder = tmp_path_factory.mktemp("demo")
    digits_store(folder, say=lambda text: None)
    return folder


@pytest.fixture(scope="module")
def address(digits):
    with viewed(digits / "store") as found:
        yield found


@pytest.fixture
def tab(browser, address):
    opened = Tab(browser, address)
    yield opened
    assert opened.complaints == []
    assert opened.foreign == []
    opened.close()


def test_the_first_neighbours_are_there_soon(browser, digits):
    import time

    started = time.perf_counter()
    with viewed(digits / "store") as found:
        opened = Tab(browser, found)
        opened.page.locator(".hit-tile strong").first.wait_for()
        seconds = time.perf_counter() - started
        assert "token" not in opened.page.url
        assert opened.page.locator(".hit-tile").count() == 24
        opened.close()
    print(f"first neighbours after {seconds:.1f} s")  # to be ten at the most; tests assert no times


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_on_digits(browser, address, width, scheme):
    look_at_all(browser, address, "digits", width, scheme)


def test_moving_the_bits_asks_nobody_and_is_in_the_address(tab):
    tab.open("/?item=17")
    asked = []
    tab.page.on("request", lambda request: "/api/v1/neighbours" in request.url and asked.append(request.url))
    slider = tab.page.get_by_label("Bits used")
    for _ in range(3):
        slider.press("ArrowLeft")
    assert tab.params() == {"item": "17", "bits": "128"}
    assert tab.text("h1") == "24 nearest at 128 bits"
    tab.page.keyboard.press("]")
    assert tab.text("h1") == "24 nearest at 256 bits"
    tab.page.locator("h1").click()
    tab.page.keyboard.press("[")
    assert tab.text("h1") == "24 nearest at 128 bits"
    assert asked == []
    assert tab.page.locator(".hit-tile.grey").count() >= 1, (
        "short codes cannot tell all hits from random pairs"
    )


def test_items_are_walked_by_keys_buttons_and_links_and_back_leads_back(tab):
    tab.open("/?item=17")
    tab.page.keyboard.press("ArrowRight")
    assert tab.params()["item"] == "18"
    tab.page.get_by_role("button", name="Previous item").click()
    tab.page.get_by_role("button", name="Previous item").click()
    assert tab.params()["item"] == "16"
    tab.page.get_by_role("button", name="Random").click()
    tab.page.locator(".hit-tile > a").nth(3).click()
    tab.settle()
    first = tab.page.url
    tab.page.reload()
    tab.settle()
    assert tab.page.url == first
    tab.page.go_back()
    tab.page.go_back()
    assert tab.params()["item"] == "16"
    tab.page.go_forward()
    assert tab.params()["item"] != "16"


def test_modes_counts_and_two_settings_side_by_side(tab):
    tab.open("/?item=17&bits=256")
    tab.page.get_by_role("radio", name="re-ranked", exact=True).check(force=True)
    tab.settle()
    tab.page.get_by_text("24 of 24 are among the true 24").wait_for()
    assert tab.params()["mode"] == "reranked"
    tab.page.get_by_label("Show").select_option("6")
    tab.page.locator("h1", has_text="6 nearest").wait_for()
    tab.page.get_by_label("Beside").select_option("hamming")
    tab.page.locator("h2", has_text="B: by bits").wait_for()
    assert tab.page.locator(".grid").count() == 2
    tab.page.reload()
    tab.settle()
    assert tab.page.get_by_label("Beside").input_value() == "hamming"
    tab.page.get_by_label("Beside").select_option("full")
    tab.page.locator("h2", has_text="all 1,024 bits").wait_for()
    tab.check(shifts=False)


def test_an_item_is_found_by_name_with_the_keyboard(tab):
    box = tab.page.get_by_role("combobox", name="Find an item by name")
    box.fill("1234")
    tab.page.get_by_role("option").first.wait_for()
    box.press("ArrowDown")
    box.press("Enter")
    assert tab.params()["item"] == "1234"
    box.fill("no such name")
    tab.page.get_by_text("No item is called that.").wait_for()
    assert tab.violations() == []


def test_files_are_dropped_and_bad_ones_are_told(tab, digits):
    Q = np.load(digits / "query.npy")
    buffer = io.BytesIO()
    np.save(buffer, Q[0])
    choose = tab.page.locator("input[type=file]")
    choose.set_input_files(
        {"name": "q.npy", "mimeType": "application/octet-stream", "buffer": buffer.getvalue()}
    )
    tab.page.locator(".who", has_text="q.npy").wait_for()
    tab.settle()
    assert "query" in tab.params()
    choose.set_input_files(
        {"name": "bad.npy", "mimeType": "application/octet-stream", "buffer": b"\x93NUMPY"}
    )
    tab.page.get_by_text("the .npy file is damaged").wait_for()
    # The browser itself notes the refused request; nothing else may complain.
    assert all("400" in text for text in tab.complaints)
    tab.complaints.clear()


def test_hits_are_saved_as_csv_and_shown_as_a_table(tab):
    tab.open("/?item=17&k=12&bits=128")
    with tab.page.expect_download() as saved:
        tab.page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(Path(saved.value.path()).read_text().splitlines()))
    assert len(rows) == 12
    assert rows[0]["bits"] == "128"
    table = tab.table("The hits as a table")
    assert table.count() == 12
    assert table.first.inner_text().split("\t")[1] == rows[0]["id"]


def test_a_pair_from_its_link_blinks_and_swaps(tab):
    tab.open("/?item=17")
    tab.page.get_by_role("link", name="Compare with").first.click()
    tab.page.locator("h1", has_text="Their kernel value is").wait_for()
    a, b = tab.params()["a"], tab.params()["b"]
    tab.page.keyboard.press("b")
    seen = set()
    for _ in range(20):
        seen.add(tab.text(".blink h2"))
        tab.page.wait_for_timeout(150)
    assert seen == {"A", "B"}
    tab.page.get_by_role("button", name="Stop blinking").click()
    tab.page.keyboard.press("x")
    assert (tab.params()["a"], tab.params()["b"]) == (b, a)
    tab.page.get_by_role("combobox", name="Choose A by name").fill("400")
    tab.page.get_by_role("option").first.click()
    assert tab.params()["a"] == "400"


def test_bits_recommends_for_the_target(tab):
    tab.open("/bits?target=0.8")
    tab.page.get_by_role("radio", name="re-ranked", exact=True).check(force=True)
    tab.page.locator("h1", has_text="64 bits").wait_for()
    assert "--keep-vectors" in tab.text(".advice code")
    tab.page.get_by_role("radio", name="bits", exact=True).check(force=True)
    slider = tab.page.get_by_label("Wanted recall")
    slider.press("End")
    tab.page.locator("h1", has_text="No code that was tried").wait_for()
    assert tab.params() == {"by": "hamming", "target": "0.99"}
    table = tab.table("All that was measured")
    assert table.count() >= 8
    tab.page.reload()
    tab.settle()
    assert tab.page.get_by_label("Wanted recall").input_value() == "0.99"


def test_groups_are_fewer_where_more_is_asked(tab):
    tab.open("/groups?min=0.85")
    before = int(tab.text("h1").split()[0])
    tab.page.get_by_label("At least this kernel value").press("End")
    tab.page.locator("h1", has_text="No two items").wait_for()
    tab.open("/groups?min=0.85")
    assert int(tab.text("h1").split()[0]) == before
    tab.page.get_by_role("link", name="Compare").first.click()
    tab.page.locator("h1", has_text="Their kernel value is").wait_for()


def test_meaning_answers_live(tab):
    tab.open("/meaning?kernel=angle&bits=1024")
    assert tab.text("h1").startswith("Cosine 0.70: about 259 of 1,024 bits differ")
    tab.page.get_by_label("If the cosine is").press("End")
    assert "about 0 of" in tab.text("h1")
    tab.page.get_by_role("radio", name="kernel", exact=True).check(force=True)
    tab.page.get_by_role("radio", name="random", exact=True).check(force=True)
    tab.page.get_by_text("the paper's bounds").wait_for()
    tab.page.get_by_label("Bits", exact=True).press("Home")
    tab.page.locator("h1", has_text="of 16 bits").wait_for()


def test_names_notes_and_stores_without_vectors(browser, places):
    with viewed(places / "names") as found:
        opened = Tab(browser, found)
        opened.open("/?item=0&bits=64")
        assert opened.text(".who strong") == "<script>alert(1)</script>"
        assert opened.page.get_by_role("radio", name="real values", exact=True).is_disabled()
        assert "keeps only codes" in opened.text(".note >> nth=-1")
        opened.check()
        opened.open("/?item=1")
        assert "onerror" in opened.text(".who .hint"), "metadata are text"
        opened.open("/bits")
        assert "bilsh view x.npy" in opened.text(".failure")
        opened.close()


@pytest.mark.parametrize("name", ["kernel", "foreign", "empty", "x.npy"])
def test_other_things_to_look_at(browser, places, name):
    with viewed(places / name) as found:
        opened = Tab(browser, found)
        for path in PAGES.values():
            opened.open(path.replace("17", "7").replace("94", "20"))
        # Codes alone cannot be measured: the refusal is shown, and the browser notes it.
        assert all("400" in text for text in opened.complaints)
        opened.complaints.clear()
        opened.open("/meaning")
        opened.check()
        opened.close()


def test_large_fonts_break_nothing(browser, address):
    for width in (1280, 390):
        opened = Tab(browser, address, width=width)
        for path in PAGES.values():
            opened.open(path)
            opened.page.evaluate("document.documentElement.style.fontSize = '28px'")
            opened.page.wait_for_timeout(200)
            assert opened.overflow <= 0, (path, width)
        opened.close()


def test_the_server_that_is_gone_is_named(browser, digits):
    with viewed(digits / "store") as found:
        opened = Tab(browser, found)
        opened.open("/?item=17")
    opened.page.keyboard.press("ArrowRight")
    opened.page.get_by_text("Is `bilsh view` still running?").wait_for()
    opened.close()


def test_a_store_that_changes_is_told(browser, digits, tmp_path):
    import shutil

    import bilsh

    shutil.copytree(digits / "store", tmp_path / "store")
    with viewed(tmp_path / "store") as found:
        opened = Tab(browser, found)
        with bilsh.Store.open(tmp_path / "store", "a") as store:
            store.delete([0])
        opened.page.reload()
        opened.page.get_by_text("The store has changed since").wait_for()
        opened.close()


def test_the_picture_of_the_documentation(browser, address):
    """Written where BILSH_PAGE_PICTURE says: `make page-picture`."""
    target = os.environ.get("BILSH_PAGE_PICTURE")
    opened = Tab(browser, address)
    opened.page.set_viewport_size({"width": 1280, "height": 860})
    opened.open("/?item=17&bits=128")
    if target:
        opened.page.screenshot(path=target)
    opened.check()
    opened.close()
