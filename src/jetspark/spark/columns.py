"""The columns of the source: their Spark types, which of them a query wants, and what must be decoded for them.

Spark 4.3 cannot ask a Python source for fewer columns, so a schema given by the user is taken as the choice of columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.client import arrow_batches
from jetspark.client.errors import BadOptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from jetspark.spark.options import Options

STREAM = "stream"
SUBJECT = "subject"
SEQUENCE = "sequence"
TIMESTAMP = "timestamp"
DATA = "data"
HEADERS = "headers"
TIMESTAMP_NS = "timestamp_ns"
COLUMNS = (STREAM, SUBJECT, SEQUENCE, TIMESTAMP, DATA, HEADERS, TIMESTAMP_NS)

# What the client decodes for a column of ours; the stream's name is known without decoding.
_DECODED = {
    SUBJECT: arrow_batches.SUBJECT,
    SEQUENCE: arrow_batches.SEQUENCE,
    TIMESTAMP: arrow_batches.TIMESTAMP,
    TIMESTAMP_NS: arrow_batches.TIMESTAMP,
    DATA: arrow_batches.DATA,
    HEADERS: arrow_batches.HEADERS,
}


def full_schema() -> StructType:
    """Every column there is."""
    from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType, TimestampType

    pair = StructType([StructField("key", StringType(), False), StructField("value", BinaryType(), False)])
    return StructType(
        [
            StructField(STREAM, StringType(), False),
            StructField(SUBJECT, StringType(), False),
            StructField(SEQUENCE, LongType(), False),
            StructField(TIMESTAMP, TimestampType(), False),
            StructField(DATA, BinaryType(), False),
            StructField(HEADERS, ArrayType(pair, False), False),
            StructField(TIMESTAMP_NS, LongType(), False),
        ]
    )


def source_schema(options: Options) -> StructType:
    """The columns when the user names none."""
    from pyspark.sql.types import StructType

    left_out = set()
    if not options["includeHeaders"]:
        left_out.add(HEADERS)
    if not options["includeTimestampNs"]:
        left_out.add(TIMESTAMP_NS)
    return StructType([field for field in full_schema() if field.name not in left_out])


def schema_without_extras() -> StructType:
    """The columns that need not be asked for."""
    from pyspark.sql.types import StructType

    return StructType([field for field in full_schema() if field.name not in (HEADERS, TIMESTAMP_NS)])


def check_schema(schema: StructType) -> None:
    """Refuse a user's schema with columns that are not there, or are of another type."""
    known = {field.name: field for field in full_schema()}
    if not schema.fields:
        raise BadOptionError(f"the schema has no columns: choose some of {', '.join(COLUMNS)}")
    if len(set(schema.names)) != len(schema.names):
        raise BadOptionError("the schema names a column twice")
    for field in schema.fields:
        own = known.get(field.name)
        if own is None:
            raise BadOptionError(f"there is no column {field.name}: choose some of {', '.join(COLUMNS)}")
        if own.dataType.simpleString() != field.dataType.simpleString():
            raise BadOptionError(
                f"column {field.name} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}:"
                " take it as it is and cast it afterwards"
            )


def decoded_columns(names: list[str]) -> list[str]:
    """What the client must decode: always the sequence, by which progress is told, and no more than was asked for."""
    wanted = [_DECODED[name] for name in names if name in _DECODED]
    return list(dict.fromkeys([arrow_batches.SEQUENCE, *wanted]))
