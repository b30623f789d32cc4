"""The dashboard and data nobody planned for: odd names, large and deep bodies, many of everything, what goes away."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect
from tests.browser.places import OpenPage, next_beat, url, visit
from tests.browser.story import Story, report_pipelines

import jetspark.sync
from jetspark.client.sync.connection import Connection
from jetspark.server.embedded import RunningServer

# More than one wait: on a machine with much else to do a page takes its time, and none of it is asserted.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# Text whose contrast with what is behind it is below what WCAG asks of it.
FAINT_TEXT = """() => {
    const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const color = numbers(getComputedStyle(at).backgroundColor);
            if (color.length === 3 || color[3] === 1) return color;
        }
        return [255, 255, 255];
    };
    const faint = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode.parentElement;
        const isShown = texts.currentNode.data.trim() && node.checkVisibility();
        if (!isShown || node.closest("[disabled], .skip, noscript")) continue;
        const style = getComputedStyle(node);
        const [one, two] = [luminance(numbers(style.color)), luminance(behind(node))].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize);
        const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
        const ratio = (one + 0.05) / (two + 0.05);
        if (ratio < needed) faint.add(`${node.className || node.nodeName}: ${ratio.toFixed(2)}`);
    }
    return [...faint];
}"""


@pytest.fixture
def odd(server: RunningServer, story: Story) -> Iterator[Connection]:
    with jetspark.sync.connect(server.url, name="odd") as client:
        client.jetstream().create_stream("ODD", subjects=["odd.>"])
        yield client
        client.jetstream().delete_stream("ODD")


def open_message(page: Page, subject: str) -> None:
    page.get_by_role("button", name=subject, exact=True).click()
    page.get_by_role("dialog").wait_for()


# -- messages ----------------------------------------------------------------------------------------------------------


def test_json_is_shown_as_it_was_written(server: RunningServer, odd: Connection, open_page: OpenPage) -> None:
    body = '{"b": 1.0, "2": -0, "1": 0.10000000000000001, "a": 1e400, "b": [], "e": {}, "u": "\\u00e9\\n"}'
    odd.jetstream().publish("odd.order", body.encode())
    page = open_page(url(server), "#/streams/ODD/messages", heading="ODD")

    open_message(page, "odd.order")

    shown = page.get_by_role("dialog").locator("pre.json").inner_text()
    assert [line.strip() for line in shown.splitlines()] == [
        "{",
        '"b": 1.0,',
        '"2": -0,',
        '"1": 0.10000000000000001,',
        '"a": 1e400,',
        '"b": [],',
        '"e": {},',
        '"u": "é\\n"',
        "}",
    ]


@pytest.mark.parametrize(
    ("body", "title", "last"),
    [
        (b"[" * 20_000 + b"]" * 20_000, "Body · JSON", "]"),
        (json.dumps({"rows": [{"id": number} for number in range(30_000)]}).encode(), "Body · JSON", "}"),
        (b"line\n" * 20_000 + b"end", "Body · text", "end"),
        (b"x" * (1024 * 1024), "Body · text", "x"),
        (b"\0" * 10_000, "Body · bytes, the first 4,096 bytes", "·"),
        ("café".encode("latin-1"), "Body · bytes", "·"),
        (b"", "Body", "empty"),
    ],
    ids=["deep", "long", "lines", "a megabyte", "bytes", "not UTF-8", "empty"],
)
def test_large_deep_and_odd_bodies_are_shown(
    server: RunningServer, odd: Connection, open_page: OpenPage, body: bytes, title: str, last: str
) -> None:
    odd.jetstream().publish("odd.body", body)
    page = open_page(url(server), "#/streams/ODD/messages", heading="ODD")

    open_message(page, "odd.body")

    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".label").last).to_have_text(title)
    text = dialog.locator("pre, p.faint").last.text_content()
    assert text is not None
    assert text[-1:] == last[-1]


def test_a_long_message_begins_at_its_beginning_and_gives_the_focus_back(
    server: RunningServer, odd: Connection, open_page: OpenPage
) -> None:
    odd.jetstream().publish("odd.headers", b"x", headers={f"Header-{number}": "value" for number in range(60)})
    page = open_page(url(server), "#/streams/ODD/messages", heading="ODD", **PHONE)

    open_message(page, "odd.headers")

    dialog = page.get_by_role("dialog", name="Message 1")
    assert dialog.evaluate("node => node.scrollTop") == 0
    expect(dialog.get_by_role("heading", name="Message 1")).to_be_in_viewport()
    expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="odd.headers")).to_be_focused()


def test_deleting_a_message_asks_once_and_cancels_by_default(
    server: RunningServer, odd: Connection, open_page: OpenPage
) -> None:
    odd.jetstream().publish("odd.gone", b"x")
    page = open_page(url(server), "#/streams/ODD/messages", heading="ODD")
    dialog = page.get_by_role("dialog", name="Delete message 1")

    for button in ("Cancel", "Delete"):
        open_message(page, "odd.gone")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("Delete message 1 of ODD? It cannot be brought back.")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        dialog.get_by_role("button", name=button).click()

    expect(page.get_by_text("The stream is empty.")).to_be_visible()


def test_a_form_that_is_wrong_says_so_before_it_asks(
    server: RunningServer, odd: Connection, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams/ODD/messages", heading="ODD")
    page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog", name="Publish a message")

    dialog.get_by_role("button", name="Review").click()
    expect(dialog.get_by_role("alert")).to_contain_text("“odd.” is not a subject to publish to")
    dialog.get_by_label("Subject").fill("odd.x")
    dialog.get_by_label("Headers").fill("no colon")
    dialog.get_by_role("button", name="Review").click()
    expect(dialog.get_by_role("alert")).to_contain_text("“no colon” is not a header")
    dialog.get_by_label("Headers").fill("")
    dialog.get_by_label("Body").fill("x")
    dialog.get_by_role("button", name="Review").click()

    expect(dialog).to_contain_text("Publish 1 byte to odd.x?")


# -- lists -------------------------------------------------------------------------------------------------------------


def test_several_pulls_of_one_client_stay_listed(server: RunningServer, odd: Connection, open_page: OpenPage) -> None:
    config = {"name": "twice", "durable_name": "twice", "ack_policy": "explicit"}
    odd.jetstream().api_request("CONSUMER.CREATE.ODD.twice", {"stream_name": "ODD", "config": config})
    inbox = odd.new_inbox()
    odd.subscribe(inbox, callback=lambda message: None)
    for batch in (5, 7, 9):
        request = json.dumps({"batch": batch, "expires": 600_000_000_000}).encode()
        odd.publish("$JS.API.CONSUMER.MSG.NEXT.ODD.twice", request, reply=inbox)
    page = open_page(url(server), "#/streams/ODD/consumers/twice", heading="twice")
    wanted = page.locator("tbody tr td:nth-child(2)")
    expect(wanted).to_have_text(["5", "7", "9"])

    next_beat(page)

    expect(wanted).to_have_text(["5", "7", "9"])


def test_pipelines_of_the_same_name_and_of_a_long_one_are_all_readable(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    bucket = "$KV.jetspark_pipelines"
    for key, name in (("one", "same"), ("two", "same"), ("long", "x" * 120)):
        story.shop.jetstream().publish(f"{bucket}.{key}", json.dumps({"name": name, "batch": 1}).encode())
    page = open_page(url(server), "#/pipelines", heading="Pipelines", **PHONE)

    next_beat(page, "**/api/pipelines")

    expect(page.get_by_role("heading", name="same", exact=True)).to_have_count(2)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    story.shop.jetstream().api_request("STREAM.PURGE.KV_jetspark_pipelines", {})
    report_pipelines(story.shop)


def test_one_of_many_consumers_is_found(server: RunningServer, odd: Connection, open_page: OpenPage) -> None:
    for number in range(30):
        name = f"c{number:02}"
        config = {"name": name, "ack_policy": "explicit", "inactive_threshold": 600_000_000_000, "mem_storage": True}
        odd.jetstream().api_request(f"CONSUMER.CREATE.ODD.{name}", {"stream_name": "ODD", "config": config})
    page = open_page(url(server), "#/streams/ODD", heading="ODD")

    expect(page.locator("tbody tr")).to_have_count(20)
    page.get_by_role("link", name="All 30").click()
    expect(page.get_by_role("heading", name="30 consumers")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("c29")

    expect(page.locator("td.name a")).to_have_text(["c29"])


@pytest.mark.parametrize("name", ["a{b}", "50%", "a%2Fb", '"it\'s"', "<img"])
def test_a_stream_of_any_name_can_be_opened(
    server: RunningServer, odd: Connection, open_page: OpenPage, name: str
) -> None:
    odd.jetstream().create_stream(name, subjects=["named.>"])
    page = open_page(url(server), "#/streams", heading="Streams")

    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    for tab in ("Messages", "Configuration", "Consumers"):
        page.get_by_role("navigation", name="Stream").get_by_role("link", name=tab).click()
        expect(page.get_by_role("link", name=tab)).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)

    odd.jetstream().delete_stream(name)


def test_a_mirror_says_what_it_mirrors(server: RunningServer, odd: Connection, open_page: OpenPage) -> None:
    odd.jetstream().api_request("STREAM.CREATE.COPY", {"name": "COPY", "mirror": {"name": "ODD"}})
    page = open_page(url(server), "#/streams/COPY", heading="COPY")

    expect(page.get_by_text("mirror of ODD")).to_be_visible()

    odd.jetstream().delete_stream("COPY")


# -- what goes away, what takes long -----------------------------------------------------------------------------------


def test_a_stream_that_is_deleted_while_somebody_looks_says_so(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    story.shop.jetstream().create_stream("BRIEF", subjects=["brief.>"])
    page = open_page(url(server), "#/streams/BRIEF", heading="BRIEF")

    story.shop.jetstream().delete_stream("BRIEF")

    expect(page.get_by_text("There is no stream BRIEF in account $G.")).to_be_visible()


def test_a_place_that_cannot_be_read_is_not_found(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")

    page.evaluate("location.hash = '#/streams/%'")

    expect(page.get_by_text("There is no such page.")).to_be_visible()


def test_a_view_that_never_answers_does_not_hold_up_the_next(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server))
    held: list[Route] = []
    page.route("**/api/pipelines", lambda route: held.append(route))

    page.keyboard.press("3")
    expect(page.get_by_text("Loading…")).to_be_visible()
    page.keyboard.press("2")

    expect(page.locator("td.name a").first).to_be_visible()
    for route in held:
        route.abort()


def test_a_page_that_nobody_sees_asks_for_nothing(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")
    expect(page.locator("#live")).to_have_text("live")
    turn = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""

    with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/events")):
        page.evaluate(turn, True)
    with page.expect_request("**/api/events"), page.expect_response("**/api/streams*"):
        page.evaluate(turn, False)

    expect(page.locator("#live")).to_have_text("live")


# -- eyes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    server: RunningServer, story: Story, open_page: OpenPage, scheme: str
) -> None:
    page = open_page(url(server), color_scheme=scheme)

    for place in (
        "#/",
        "#/streams",
        "#/streams/ORDERS",
        "#/streams/ORDERS/config",
        "#/streams/ORDERS/messages",
        "#/streams/ORDERS/consumers/fulfil",
        "#/pipelines",
        "#/connections",
    ):
        visit(page, place)
        assert page.evaluate(FAINT_TEXT) == [], place


def test_at_twice_the_size_nothing_is_cut_off(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    # 1360 by 900 points at 200 %.
    page = open_page(url(server), viewport={"width": 680, "height": 450}, device_scale_factor=2)

    for place in ("#/", "#/streams", "#/streams/ORDERS", "#/streams/ORDERS/messages", "#/connections"):
        visit(page, place)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 680, place


@pytest.mark.parametrize("width", [390, 900, 1040, 1280])
def test_large_figures_stay_in_their_places(
    server: RunningServer, story: Story, open_page: OpenPage, width: int
) -> None:
    def enlarge(route: Route) -> None:
        document = route.fetch().json()
        figures = document["figures"]
        figures.update(dict.fromkeys(("messages", "in_msgs", "out_msgs", "connections"), 99_999))
        figures.update(commit_p99_ms=754_321.0, storage_used=1023 * 1024**4, slow_consumers=99_999, cpu=1599.9)
        route.fulfill(json=document)

    page = open_page(url(server), viewport={"width": width, "height": 844})
    page.route("**/api/overview", enlarge)
    expect(page.locator(".tile", has_text="99,999").first).to_be_visible()

    wide = """() => [...document.querySelectorAll(".tile, .bars .tick")].filter((node) => {
        const box = node.getBoundingClientRect(), style = getComputedStyle(node);
        const edge = parseFloat(style.paddingRight) + parseFloat(style.borderRightWidth);
        const right = node.matches(".tile") ? box.right - edge : Infinity;
        return node.scrollWidth > node.clientWidth || [...node.querySelectorAll("*")].some((one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            return range.getBoundingClientRect().right > right + 1;
        });
    }).map((node) => node.textContent)"""
    assert page.evaluate(wide) == []
