"""The dashboard in a real browser: every view shows what it should, and keeps itself up to date."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.places import OpenPage, url
from tests.browser.story import BIG_NUMBER, Story, report_pipelines

from jetspark.server.embedded import RunningServer

# More than one wait: on a machine with much else to do a page takes its time, and none of it is asserted.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

# Of a figure that may be anything: a rate, a duration.
RATE = r"(?:\u2013|<?[\d.,]+)"
TIME = r"[\d.]+ (?:µs|ms|s|min)(?: \d+ s)?"


def row(page: Page, name: str) -> Locator:
    """The first row of a table that starts with a name."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True)).first


def test_the_overview_shows_figures_plots_streams_and_lag(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), heading="Overview")

    figures = page.get_by_label("Figures")
    expect(figures).to_contain_text("Commit p99")
    expect(figures).to_contain_text("in 4 streams")
    expect(page.get_by_role("img", name=re.compile("Commit latency, last hour"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("[0-9]+ commits by duration"))).to_be_visible()
    expect(row(page, "ORDERS").locator("td").first).to_have_text("ORDERSorders.>")
    expect(row(page, "fulfil")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")


def test_what_happens_is_shown_without_loading_the_page_again(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")
    page.evaluate("window.sameDocument = true")
    before = server.server.broker.account("$G").jetstream.streams["PAYMENTS"].store.message_count

    for number in range(40):
        story.publish("payments.card", b"%d" % number)

    count = page.get_by_role("row").filter(has_text="PAYMENTS").locator("td").nth(2)
    expect(count).to_have_text(str(before + 40))
    assert page.evaluate("window.sameDocument")


def test_streams_are_found_by_name_or_subject_and_sorted(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")
    names = page.locator("td.name a")

    expect(names.first).to_have_text("KV_jetspark_pipelines")
    page.get_by_label("Sort by").select_option("messages")
    expect(names.last).to_have_text("SCRATCH")
    expect(names.first).not_to_have_text("KV_jetspark_pipelines")
    page.get_by_label("Find streams").fill("payments.")
    expect(names).to_have_text(["PAYMENTS"])
    page.get_by_label("Find streams").fill("nothing like it")

    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_a_stream_shows_its_consumers_with_lag_redeliveries_ack_latency_and_the_pinned_client(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams/ORDERS", heading="ORDERS")

    # Cells have nothing between them in the text of a row: each is looked at by itself.
    billing, fulfil = row(page, "billing").locator("td"), row(page, "fulfil").locator("td")
    expect(billing).to_have_text(
        [
            "billingpull · orders.new.de",
            re.compile(r"^\d+$"),
            re.compile(f"^{RATE}$"),
            "1",
            "1",
            "0",
            re.compile(f"^{TIME}p50 {TIME} · p99 {TIME}$"),
        ]
    )
    expect(fulfil.first).to_contain_text("workers · pinned client")
    expect(fulfil.first).to_contain_text("pinned: worker")
    expect(fulfil.nth(5)).to_have_text("1")
    expect(fulfil.last).to_have_text("not sampled")
    page.get_by_role("link", name="Configuration").click()
    expect(page.locator("pre.json")).to_contain_text('"retention": "limits"')


def test_a_consumer_shows_who_waits_who_is_pinned_and_where_it_stands(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams/ORDERS/consumers/fulfil", heading="fulfil")

    expect(page.get_by_text("Waiting pulls, next first")).to_be_visible()
    waiting = page.get_by_role("row").filter(has_text="workers")
    expect(waiting).to_contain_text("pinned")
    expect(page.locator("dl", has_text="Policy")).to_contain_text("pinned client")
    expect(page.locator("dl", has_text="Policy")).to_contain_text("at 127.0.0.1 in workers, since")
    expect(page.get_by_role("img", name=re.compile("^Lag, last hour"))).to_be_visible()


def test_messages_are_browsed_filtered_and_viewed_with_headers_and_json_as_json(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams/ORDERS/messages", heading="ORDERS")
    subjects = page.locator("td.name button")
    expect(subjects).to_have_count(25)

    page.get_by_role("button", name="More").click()
    expect(page.get_by_text("Messages, further on")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    page.get_by_label("Subject", exact=True).fill("orders.new.fr")
    expect(subjects).to_have_text(["orders.new.fr"] * 10)
    page.get_by_label("Order").select_option("oldest")
    expect(page.get_by_role("row").nth(1)).to_contain_text('{"id": 0')
    subjects.first.click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Trace-Id")
    expect(dialog).to_contain_text("t0")
    expect(dialog).to_contain_text("Body · JSON")
    assert dialog.locator("pre.json").inner_text() == ('{\n  "id": 0,\n  "customer": {\n    "name": "Ada"\n  }\n}')


def test_long_numbers_keep_their_digits_and_bytes_are_shown_as_bytes(
    server: RunningServer, story: Story, open_page: OpenPage
) -> None:
    page = open_page(url(server), "#/streams/ORDERS/messages", heading="ORDERS")
    page.get_by_label("Subject", exact=True).fill("orders.attack.>")
    expect(page.locator("td.name button")).to_have_count(2)
    page.locator("td.name button").last.click()
    expect(page.get_by_role("dialog").locator("pre.json")).to_contain_text(f'"big": {BIG_NUMBER}')
    page.keyboard.press("Escape")

    page.goto(f"{url(server)}/dashboard/#/streams/PAYMENTS/messages")
    page.get_by_role("heading", level=1, name="PAYMENTS").wait_for()
    page.get_by_label("Order").select_option("oldest")
    # Until then the first one is the newest.
    expect(page.get_by_role("heading", name="Oldest messages")).to_be_visible()
    page.locator("td.name button").first.click()

    expect(page.get_by_role("dialog")).to_contain_text("Body · bytes")
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text("00 01 02 03")


def test_a_filter_that_is_no_subject_is_explained(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams/ORDERS/messages", heading="ORDERS")

    page.get_by_label("Subject", exact=True).fill("orders..new")

    expect(page.get_by_text("is not a subject")).to_be_visible()


def test_connections_are_listed_with_what_they_do(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/connections", heading="Connections")

    expect(page.get_by_role("row").filter(has_text="shop")).to_contain_text("127.0.0.1")
    expect(page.get_by_text("this dashboard")).to_be_visible()
    page.get_by_label("Sort by").select_option("msgs_from")
    expect(page.get_by_role("row").nth(1)).to_contain_text("shop")
    page.get_by_role("button", name="shop").click()

    expect(page.get_by_role("dialog")).to_contain_text("subscriptions")


def test_pipelines_show_their_progress(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    # A report of a minute ago is one of a pipeline that is silent.
    report_pipelines(story.shop)
    page = open_page(url(server), "#/pipelines", heading="Pipelines")

    archive = page.locator("section", has_text="orders-archive")
    expect(archive).to_contain_text("running")
    expect(archive).to_contain_text("1,201")
    expect(archive).to_contain_text("sequence 16 of ")
    expect(archive).to_contain_text("behind")
    expect(page.locator("section", has_text="alerts")).to_contain_text("no column <script>")


def test_a_name_that_is_not_there_says_so(server: RunningServer, story: Story, open_page: OpenPage) -> None:
    page = open_page(url(server), "#/streams", heading="Streams")

    page.evaluate("location.hash = '#/streams/NOPE'")

    expect(page.get_by_text("There is no stream NOPE in account $G.")).to_be_visible()
