"""Request subjects: spelt, and taken apart again."""

import pytest

from jetspark.api import api_subjects
from jetspark.api.api_subjects import consumer_create, domain_prefix, request, split_request, without_domain


@pytest.mark.parametrize(
    ("subject", "parts"),
    [
        ("$JS.API.INFO", ("INFO", [], "")),
        ("$JS.API.STREAM.CREATE.S", ("STREAM.CREATE", ["S"], "")),
        ("$JS.API.STREAM.MSG.GET.S", ("STREAM.MSG.GET", ["S"], "")),
        ("$JS.API.CONSUMER.MSG.NEXT.S.c", ("CONSUMER.MSG.NEXT", ["S", "c"], "")),
        ("$JS.API.CONSUMER.CREATE.S", ("CONSUMER.CREATE", ["S"], "")),
        ("$JS.API.CONSUMER.CREATE.S.c", ("CONSUMER.CREATE", ["S", "c"], "")),
        ("$JS.API.CONSUMER.CREATE.S.c.a.>", ("CONSUMER.CREATE", ["S", "c"], "a.>")),
        ("$JS.API.CONSUMER.DURABLE.CREATE.S.c", ("CONSUMER.DURABLE.CREATE", ["S", "c"], "")),
        ("$JS.API.DIRECT.GET.S", ("DIRECT.GET", ["S"], "")),
        ("$JS.API.DIRECT.GET.S.a.b", ("DIRECT.GET", ["S"], "a.b")),
        # A stream may be called like a verb.
        ("$JS.API.STREAM.INFO.MSG", ("STREAM.INFO", ["MSG"], "")),
        ("$JS.API.CONSUMER.INFO.DURABLE.CREATE", ("CONSUMER.INFO", ["DURABLE", "CREATE"], "")),
    ],
)
def test_a_request_subject_gives_its_verb_and_names(subject: str, parts: tuple[str, list[str], str]) -> None:
    assert split_request(subject) == parts


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API",
        "$JS.API.NOPE",
        "$JS.API.INFO.x",
        "$JS.API.STREAM.CREATE",
        "$JS.API.STREAM.CREATE.S.x",
        "$JS.API.STREAM.TEMPLATE.CREATE.x",
        "$JS.API.CONSUMER.CREATE",
        "$JS.API.CONSUMER.INFO.S",
        "$JS.API.STREAM.INFO.",
        "$XX.API.INFO",
    ],
)
def test_anything_else_is_no_request(subject: str) -> None:
    assert split_request(subject) is None


def test_every_request_subject_is_taken_apart_as_it_was_put_together() -> None:
    verbs = [
        value
        for name, value in vars(api_subjects).items()
        if name.isupper() and isinstance(value, str) and not value.startswith("$") and name != "API_PREFIX"
    ]
    assert len(verbs) == 30
    for verb in verbs:
        found = [parts for count in range(3) if (parts := split_request(request(verb, *"SC"[:count]))) is not None]
        assert found, verb
        assert {parts[0] for parts in found} == {verb}


def test_a_single_filter_rides_in_the_create_subject() -> None:
    assert consumer_create("S", "c", "a.>") == "$JS.API.CONSUMER.CREATE.S.c.a.>"
    assert consumer_create("S", "c") == "$JS.API.CONSUMER.CREATE.S.c"
    assert consumer_create("S", "") == "$JS.API.CONSUMER.CREATE.S"


def test_a_domain_has_its_own_prefix() -> None:
    assert domain_prefix("hub") == "$JS.hub.API"
    assert domain_prefix("") == "$JS.API"
    assert request("INFO", prefix=domain_prefix("hub")) == "$JS.hub.API.INFO"
    assert without_domain("$JS.hub.API.STREAM.INFO.S", "hub") == "$JS.API.STREAM.INFO.S"
    assert without_domain("$JS.other.API.INFO", "hub") == "$JS.other.API.INFO"
    assert without_domain("$JS.API.INFO", "") == "$JS.API.INFO"
