"""Rewriting subjects; what is refused is compared with nats-server elsewhere."""

import pytest

from jetspark.api.subject_transform import SubjectTransformer, TransformError, check_mapping, partition_of


@pytest.mark.parametrize(
    ("source", "destination", "subject", "expected"),
    [
        ("a.*.*", "b.$2.$1", "a.x.y", "b.y.x"),
        ("a.*", "b.{{wildcard(1)}}", "a.x", "b.x"),
        ("a.>", "b.>", "a.x.y", "b.x.y"),
        ("*.>", "{{wildcard(1)}}.b.>", "a.x.y", "a.b.x.y"),
        (">", "copy.>", "a.b", "copy.a.b"),
        ("", ">", "a.b", "a.b"),
        ("a.b", "c", "a.b", "c"),
        ("a.*", "b.{{split(1,-)}}", "a.x-y--z-", "b.x.y.z"),
        ("a.*", "b.{{splitfromleft(1,3)}}", "a.12345", "b.123.45"),
        ("a.*", "b.{{splitfromright(1,3)}}", "a.12345", "b.12.345"),
        ("a.*", "b.{{slicefromleft(1,2)}}", "a.12345", "b.12.34.5"),
        ("a.*", "b.{{slicefromright(1,2)}}", "a.12345", "b.1.23.45"),
        ("a.*", "b.{{left(1,2)}}", "a.12345", "b.12"),
        ("a.*", "b.{{right(1,2)}}", "a.12345", "b.45"),
        ("a.*", "b.{{right(1,9)}}", "a.12345", "b.12345"),
        ("a.*", "b", "z.x", None),
        ("a.>", "b.>", "a", None),
        ("a.*", "b", "a.x.y", None),
    ],
)
def test_a_subject_is_rewritten_token_by_token(
    source: str, destination: str, subject: str, expected: str | None
) -> None:
    assert SubjectTransformer.parse(source, destination).transform(subject) == expected


def test_partitions_are_the_fnv_1a_hash_of_the_chosen_tokens() -> None:
    # Published test vectors of 32-bit FNV-1a.
    assert partition_of(b"", 1 << 31) == 0x811C9DC5 % (1 << 31)
    assert partition_of(b"foobar", 0xFFFFFFFF) == 0xBF9CF968
    assert partition_of(b"a", 0) == 0
    transformer = SubjectTransformer.parse("a.*.*", "b.{{partition(7,2,1)}}")
    assert transformer.transform("a.x.y") == f"b.{partition_of(b'yx', 7)}"


def test_random_numbers_are_asked_for_when_needed() -> None:
    asked = []

    def random_number(ceiling: int) -> int:
        asked.append(ceiling)
        return 2

    transformer = SubjectTransformer.parse("a", "b.{{random(5)}}")

    assert transformer.transform("a", random_number) == "b.2"
    assert asked == [5]
    with pytest.raises(ValueError, match="random numbers"):
        transformer.transform("a")


def test_a_destination_may_not_use_a_wildcard_the_source_does_not_have() -> None:
    with pytest.raises(TransformError, match=r"wildcard index out of range in \$2: \[2\]"):
        check_mapping("a.*", "b.$2")


@pytest.mark.parametrize(
    "destination", ["{{wildcard(" * 90_000 + "}}", "{{" + " " * 1_000_000 + "}}", "$" + "1" * 1_000_000]
)
def test_a_destination_of_a_megabyte_is_refused_in_linear_time(destination: str) -> None:
    with pytest.raises(TransformError):
        check_mapping("a.*", destination)
