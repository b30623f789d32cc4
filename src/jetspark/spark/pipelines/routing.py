"""Subjects made of values, and fan-out: each message to the subjects whose rules it meets.

Decided here, for `as_messages` too: what a subject with columns in braces means, and what becomes of a value in it. A
rule is a name, a condition in SQL over the message's columns, and a subject with the message's columns in braces. The
work is a map without a shuffle: one copy for each rule that holds, with an id made of stream, sequence and rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = re.compile(r"\{([A-Za-z_][\w.]*)\}")
# What a subject may not hold, so that a value cannot make a message go elsewhere.
_UNFIT = r"[\s\x00.*>]+"
# Four values of this length, each of four bytes, are a subject that a server takes.
VALUE_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Rule:
    """A rule of `fan_out`, such as `Rule("big", "amount > 1000", "alerts.{country}")`: name, SQL condition, subject."""

    name: str
    when: str
    subject: str


def fan_out(
    rows: DataFrame,
    rules: Sequence[Rule],
    *,
    first_only: bool = False,
    otherwise: str | None = None,
    headers: bool = False,
) -> DataFrame:
    """Messages for the sink (`subject`, `data`, `msg_id`): one row for each rule that a message matches.

    With `first_only` only the first rule that matches counts. `otherwise` is the subject of messages that match none.
    The rows need the source's columns stream, sequence and data, and `headers` if you want to keep them.
    """
    from pyspark.sql import functions as f

    chosen = list(rules)
    check_rules(chosen)
    if otherwise is not None:
        check_subject("otherwise", otherwise)
    copies = [_copy(rule, f.expr(rule.when)) for rule in chosen]
    picked = f.array_compact(f.array(*copies))
    if first_only:
        picked = f.slice(picked, 1, 1)
    if otherwise is not None:
        rest = f.array(f.struct(f.lit("otherwise").alias("rule"), subject_of(otherwise).alias("subject")))
        picked = f.when(f.size(picked) == 0, rest).otherwise(picked)
    sent = rows.withColumn("sent", f.explode(picked))
    identity = f.concat_ws(":", f.col("stream"), f.col("sequence").cast("string"), f.col("sent.rule"))
    kept = ["data", "headers"] if headers else ["data"]
    return sent.select(f.col("sent.subject").alias("subject"), *kept, identity.alias("msg_id"))


def check_rules(rules: Sequence[Rule]) -> None:
    """Refuse rules that cannot be told apart or send nowhere."""
    if not rules:
        raise PipelineError("fan_out needs at least one rule")
    names = [rule.name for rule in rules]
    for rule in rules:
        if names.count(rule.name) > 1:
            raise PipelineError(f"two rules are called {rule.name!r}: ids of messages are made from the name")
        check_subject(f"rule {rule.name!r}", rule.subject)


def check_subject(who: str, subject: str) -> None:
    """Refuse a subject that no message could have, or with a brace that is not a column's."""
    plain = _PLACE.sub("x", subject)
    if any(character.isspace() or character in "*>\0" for character in plain) or "" in plain.split("."):
        raise PipelineError(f"{who} sends to {subject!r}, which is no subject")
    if "{" in plain or "}" in plain:
        raise PipelineError(f"{who} sends to {subject!r}: a column stands in braces, as in {{country}}")


def _copy(rule: Rule, condition: Column) -> Column:
    from pyspark.sql import functions as f

    made = f.struct(f.lit(rule.name).alias("rule"), subject_of(rule.subject).alias("subject"))
    return f.when(condition, made)


def subject_of(template: str) -> Column:
    """A subject with columns in braces as a column; whatever the values are, it is one that a server takes.

    A value is one token: dots, white space and wildcards in it become `_`, and so do null and empty text. Of a long
    value the first 200 characters are used.
    """
    from pyspark.sql import functions as f

    parts = []
    at = 0
    for place in _PLACE.finditer(template):
        parts.append(f.lit(template[at : place.start()]))
        value = f.coalesce(f.col(place.group(1)).cast("string"), f.lit(""))
        fit = f.left(f.regexp_replace(value, _UNFIT, "_"), f.lit(VALUE_CHARACTERS_MAX))
        parts.append(f.when(fit == "", f.lit("_")).otherwise(fit))
        at = place.end()
    parts.append(f.lit(template[at:]))
    return f.concat(*parts)
