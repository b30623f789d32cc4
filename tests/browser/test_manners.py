"""How the page behaves: nothing in a message runs, a phone can read it, a keyboard can drive it, forms ask first."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect
from tests.browser.places import OpenPage, lasting_port, next_beat, url, visit
from tests.browser.story import ATTACK, SCRIPT, Story, tell

import jetspark.sync
from jetspark.server.embedded import RunningServer, embedded_options, serve

# More than one wait: on a machine with much else to do a page takes its time, and none of it is asserted.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

VIEWS = (
    "#/",
    "#/streams",
    "#/streams/ORDERS",
    "#/streams/ORDERS/consumers",
    "#/streams/ORDERS/messages",
    "#/streams/ORDERS/config",
    "#/streams/ORDERS/consumers/fulfil",
    "#/pipelines",
    "#/connections",
)


def test_nothing_a_message_contains_runs(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams/ORDERS/messages", heading="ORDERS")
    page.get_by_label("Subject", exact=True).fill("orders.attack.>")
    expect(page.locator("td.name button")).to_have_text(["orders.attack.header", f"orders.attack.{ATTACK}"])

    for number in range(2):
        page.locator("td.name button").nth(number).click()
        expect(page.get_by_role("dialog")).to_contain_text(SCRIPT)
        page.keyboard.press("Escape")
    for place in VIEWS:
        visit(page, place)

    assert page.evaluate("document.body.dataset.hacked") is None
    assert page.locator("main script, main img, dialog img").count() == 0


def test_a_script_that_got_into_the_page_would_be_refused(
    server: RunningServer, story: Story, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(f"{url(server)}/dashboard/")
    page.get_by_role("heading", level=1).wait_for()

    refused = page.evaluate(
        """async markup => {
            const seen = [];
            addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
            document.body.insertAdjacentHTML("beforeend", markup);
            const inline = document.createElement("script");
            inline.textContent = "document.body.dataset.hacked = 2";
            document.body.append(inline);
            await fetch("http://127.0.0.1:9/").catch(() => {});
            // They are told when the browser comes to it.
            const turn = () => new Promise((done) => setTimeout(done, 20));
            for (let turns = 0; turns < 500 && new Set(seen).size < 3; turns += 1) await turn();
            return [seen.sort(), document.body.dataset.hacked ?? null];
        }""",
        ATTACK,
    )
    page.close()

    assert refused[1] is None
    assert {"script-src-attr", "script-src-elem", "connect-src"} <= set(refused[0])


def test_a_phone_can_read_every_view(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)

    for place in VIEWS:
        visit(page, place)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390, place
    navigation = page.get_by_role("navigation", name="Views").bounding_box()

    assert navigation is not None
    assert navigation["y"] + navigation["height"] == pytest.approx(844, abs=2)


def test_the_page_is_dark_where_the_system_is_and_can_be_changed(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    brightness = "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    light = open_page(url(server), color_scheme="light")
    dark = open_page(url(server), color_scheme="dark")
    assert light.evaluate(brightness) > 200
    assert dark.evaluate(brightness) < 40

    dark.get_by_role("button", name="Change between light and dark").click()
    assert dark.evaluate(brightness) > 200
    dark.reload()

    dark.get_by_role("heading", level=1).wait_for()
    assert dark.evaluate(brightness) > 200


def test_the_keyboard_reaches_everything(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server))

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("2")
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    page.keyboard.press("/")
    page.keyboard.type("SCRATCH")
    expect(page.locator("td.name a")).to_have_text(["SCRATCH"])
    page.keyboard.press("Control+A")
    page.keyboard.type("ORDERS")
    expect(page.locator("td.name a")).to_have_text(["ORDERS"])
    page.locator("td.name a").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("ORDERS")
    page.get_by_role("link", name="Messages").focus()
    page.keyboard.press("Enter")
    page.locator("td.name button").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_late_answer_takes_the_focus_from_nobody(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server))
    # Nobody answers until the route is taken away again.
    page.route("**/api/streams*", lambda route: None)

    with page.expect_request("**/api/streams*"):
        page.keyboard.press("2")
    page.keyboard.press("/")
    page.unroute("**/api/streams*")
    expect(page.locator("td.name a").first).to_be_visible()

    expect(page.get_by_label("Find streams")).to_be_focused()


def test_a_late_answer_to_the_view_before_does_not_take_the_place_of_the_next(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")
    held: list[Route] = []
    page.route("**/api/overview*", lambda route: held.append(route))

    with page.expect_request("**/api/overview*"):
        page.keyboard.press("1")
    page.keyboard.press("2")
    expect(page.locator("td.name a").first).to_be_visible()
    with page.expect_response("**/api/overview*"):
        for route in held:
            route.continue_()
    # The beat after it: by now a view drawn in the wrong place would be there.
    with page.expect_response("**/api/streams*"):
        pass

    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    expect(page.get_by_label("Find streams")).to_be_visible()


def test_a_view_that_could_not_be_asked_for_comes_back_with_what_was_typed_into_it(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")
    page.get_by_label("Find streams").fill("SCRATCH")
    page.route("**/api/streams*", lambda route: route.fulfill(status=500, json={"error": "out of order"}))
    expect(page.locator("#main")).to_contain_text("out of order")

    page.unroute("**/api/streams*")

    expect(page.locator("td.name a")).to_have_text(["SCRATCH"])
    expect(page.get_by_label("Find streams")).to_have_value("SCRATCH")


def test_the_focus_stays_on_a_row_that_others_push_down(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    with jetspark.sync.connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("PUSHED", subjects=["pushed.>"])
        jetstream.publish("pushed.first", b"")
        page = open_page(url(server), "#/streams/PUSHED/messages")
        page.get_by_role("button", name="pushed.first").focus()

        jetstream.publish("pushed.second", b"")
        expect(page.locator("td.name button")).to_have_text(["pushed.second", "pushed.first"])

        expect(page.get_by_role("button", name="pushed.first")).to_be_focused()
        jetstream.delete_stream("PUSHED")


def test_a_plot_tells_its_values_to_pointer_and_keyboard(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server))
    plot = page.get_by_role("img", name="Messages per second")
    box = plot.bounding_box()
    assert box is not None

    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    expect(page.locator(".tip")).to_contain_text("in: ")
    page.mouse.move(2, 2)
    expect(page.locator(".tip")).to_have_count(0)
    plot.focus()
    page.keyboard.press("ArrowRight")

    expect(page.locator(".tip")).to_contain_text("now")


def test_a_plot_drawn_anew_goes_on_telling_the_same_place(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server))
    plot = page.get_by_role("img", name="Messages per second")
    # A plot of five minutes has a value every ten seconds; the first few are there when two looks were taken.
    expect(plot.locator("polyline").first).to_be_attached()
    plot.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip")).to_contain_text("now")

    next_beat(page, "**/api/overview")

    assert page.locator(".tip").count() == 1
    assert page.locator(".cursor").count() == 1


def test_publishing_asks_first_and_says_what_it_did(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams/SCRATCH/messages", heading="SCRATCH")
    store = server.server.broker.account("$G").jetstream.streams["SCRATCH"].store
    page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Subject").fill("scratch.hello")
    dialog.get_by_label("Headers").fill("X-One: 1\nX-Two: 2")
    dialog.get_by_label("Body").fill('{"hello": "world"}')

    dialog.get_by_role("button", name="Review").click()
    expect(dialog).to_contain_text("Publish 18 bytes to scratch.hello?")
    assert store.message_count == 0
    dialog.get_by_role("button", name="Publish").click()

    expect(page.get_by_text("Stored.")).to_be_visible()
    expect(page.locator("td.name button")).to_have_text(["scratch.hello"])
    page.locator("td.name button").click()
    expect(page.get_by_role("dialog")).to_contain_text("X-Two")


def test_purging_and_deleting_ask_first(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    streams = server.server.broker.account("$G").jetstream.streams
    story.shop.jetstream().create_stream("GOING", subjects=["going.*"])
    for number in range(5):
        story.publish("going.one" if number < 2 else "going.two", b"x")
    page = open_page(url(server), "#/streams/GOING", heading="GOING")
    dialog = page.get_by_role("dialog")

    page.get_by_role("button", name="Purge").click()
    dialog.get_by_label("Only this subject").fill("going.one")
    dialog.get_by_role("button", name="Review").click()
    expect(dialog).to_contain_text("Remove messages on going.one from GOING?")
    assert streams["GOING"].store.message_count == 5
    dialog.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("2 messages purged from GOING.")).to_be_visible()
    assert streams["GOING"].store.message_count == 3

    page.get_by_role("button", name="Delete").click()
    dialog.get_by_label("Type GOING to confirm").fill("going")
    dialog.get_by_role("button", name="Review").click()
    expect(dialog).to_contain_text("Type GOING to confirm.")
    dialog.get_by_label("Type GOING to confirm").fill("GOING")
    dialog.get_by_role("button", name="Review").click()
    dialog.get_by_role("button", name="Cancel").click()
    assert "GOING" in streams
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_label("Type GOING to confirm").fill("GOING")
    dialog.get_by_role("button", name="Review").click()
    dialog.get_by_role("button", name="Delete").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    assert "GOING" not in streams


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with two accounts and a dashboard as it comes: read-only."""
    file = tmp_path_factory.mktemp("guarded") / "server.conf"
    file.write_text(
        "jetstream { }\naccounts {\n"
        "  EU { jetstream: enabled, users: [{ user: eve, password: eu }] }\n"
        "  US { jetstream: enabled, users: [{ user: sam, password: us }] }\n}\n"
    )
    options = embedded_options(http_port=0, config_file=file)
    with serve(options) as running:
        yield running


def test_a_viewer_logs_in_sees_his_own_account_and_cannot_change_it(
    guarded: RunningServer, open_page: OpenPage
) -> None:
    for user, password, stream in (("eve", "eu", "EUROPE"), ("sam", "us", "STATES")):
        with jetspark.sync.connect(guarded.url, user=user, password=password) as connection:
            connection.jetstream().create_stream(stream, subjects=[f"{stream}.>"])

    login = {"username": "eve", "password": "eu"}
    page = open_page(url(guarded), "#/streams", heading="Streams", http_credentials=login)

    expect(page.locator("td.name a")).to_have_text(["EUROPE"])
    expect(page.locator("#who")).to_contain_text("eve @ EU")
    visit(page, "#/streams/EUROPE")
    expect(page.get_by_text("read-only", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Purge")).to_have_count(0)
    answer = page.evaluate(
        """async () => {
            const { token } = await (await fetch("api/session")).json();
            const headers = { "X-Jetspark-Token": token };
            const response = await fetch("api/streams/EUROPE/purge", { method: "POST", headers, body: "{}" });
            return [response.status, await response.text()];
        }"""
    )
    assert answer[0] == 403
    assert "read-only" in json.loads(answer[1])["error"]


def test_the_page_finds_a_server_again_that_was_away(open_page: OpenPage) -> None:
    port = lasting_port()
    with serve(embedded_options(http_port=port)) as running, tell(running.url):
        page = open_page(url(running), "#/streams", heading="Streams")
        expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#live")).not_to_have_text("live")

    again = embedded_options(http_port=port)
    again.server_name = "back-again"
    with serve(again):
        expect(page.locator("#live")).to_have_text("live", timeout=60_000)
        expect(page.locator("#who")).to_contain_text("back-again")
