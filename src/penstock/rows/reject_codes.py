"""Every reason for which a record is quarantined: code, stage and meaning.

Invariants: a code keeps its meaning; a code belongs to one stage; every code has a meaning
(a test says so). The documentation's table is made from `MEANINGS`.

Source: data.md 2 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Stage(StrEnum):
    """Name the step of a record's way at which it failed."""

    DECODE = "decode"
    UNWRAP = "unwrap"
    ROUTE = "route"
    CONVERT = "convert"
    LIMIT = "limit"


class RejectCode(StrEnum):
    """Name the reason of a quarantined record."""

    EMPTY = "P301"
    MALFORMED = "P302"
    NOT_UTF8 = "P303"
    LONE_SURROGATE = "P304"
    DUPLICATE_KEY = "P305"
    NOT_AN_OBJECT = "P306"
    BYTE_ORDER_MARK = "P307"
    TRAILING_DATA = "P308"
    TOMBSTONE = "P309"
    UNFRAMED = "P310"
    UNKNOWN_SCHEMA = "P311"
    SCHEMA_UNUSABLE = "P312"
    NOT_UNPACKED = "P313"
    SLOW = "P314"
    NO_ENVELOPE = "P320"
    UNKNOWN_OPERATION = "P321"
    IMAGE_MISSING = "P322"
    NOT_AVAILABLE = "P323"
    SEVERAL_ROWS = "P324"
    TOO_LARGE = "P341"
    TOO_DEEP = "P342"
    POISON = "P343"
    UNEXPECTED = "P344"
    NO_PARTITION = "P346"
    UNKNOWN_FIELD = "P361"
    MISSING = "P362"
    WRONG_TYPE = "P363"
    OUT_OF_RANGE = "P364"
    INEXACT = "P365"
    UNREADABLE = "P366"
    ZONE_MISSING = "P367"
    ZONE_UNEXPECTED = "P368"
    WRONG_LENGTH = "P369"
    UNIT_MISSING = "P370"
    NO_COLUMNS = "P371"
    EMPTY_TEXT = "P372"
    KEY_MISSING = "P373"
    KEY_ALONE = "P374"
    SEQUENCE_MISSING = "P375"
    CONSTRAINT = "P376"
    TOO_LONG = "P377"
    NOT_COMPUTED = "P378"
    NOT_AS_GENERATED = "P379"
    UNDECIDED = "P380"
    UNROUTABLE = "P381"
    UNKNOWN_TABLE = "P382"
    UNCOMPUTED = "P383"


TRANSIENT = frozenset({RejectCode.SLOW, RejectCode.POISON})
"""A second attempt need not repeat these: time and memory do not depend on the record alone."""


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """The stage at which a code arises, the fact it states, and the advice for the user."""

    stage: Stage
    fact: str
    hint: str


_DECODE, _UNWRAP = Stage.DECODE, Stage.UNWRAP
_CONVERT, _LIMIT = Stage.CONVERT, Stage.LIMIT
_ROUTE = Stage.ROUTE

CODE_INFO: Mapping[RejectCode, CodeInfo] = MappingProxyType(
    {
        RejectCode.EMPTY: CodeInfo(
            _DECODE,
            "the value has no bytes, or only white space",
            "send no value at all to mean a tombstone",
        ),
        RejectCode.MALFORMED: CodeInfo(
            _DECODE,
            "the value is not of the declared format, or is cut off",
            "fix the producer, or  records.format; JSON (RFC 8259) has no NaN, no Infinity, no raw"
            " control characters",
        ),
        RejectCode.NOT_UTF8: CodeInfo(
            _DECODE,
            "the value, a text in it, or a key or header that is read as text, is not valid UTF-8",
            "fix the producer's encoding",
        ),
        RejectCode.LONE_SURROGATE: CodeInfo(
            _DECODE,
            "a string contains one half of a surrogate pair",
            "fix the producer: it cuts strings in the middle of a character",
        ),
        RejectCode.DUPLICATE_KEY: CodeInfo(
            _DECODE,
            "an object or map has the same key twice",
            "fix the producer: which of the two values counts is undefined",
        ),
        RejectCode.NOT_AN_OBJECT: CodeInfo(
            _DECODE, "the value is JSON but not an object", 'wrap it: {"value": …}'
        ),
        RejectCode.BYTE_ORDER_MARK: CodeInfo(
            _DECODE,
            "the value begins with a byte order mark",
            "fix the producer: RFC 8259 forbids it",
        ),
        RejectCode.TRAILING_DATA: CodeInfo(
            _DECODE,
            "more bytes follow the object or datum",
            "send one value per record",
        ),
        RejectCode.TOMBSTONE: CodeInfo(
            _DECODE,
            "the record has no value, and the table quarantines tombstones",
            "set  tombstones: skip",
        ),
        RejectCode.UNFRAMED: CodeInfo(
            _DECODE,
            "the value does not begin with the id of a schema, as records.format asks",
            "fix  records.format  or  records.framing, or the producer's serializer",
        ),
        RejectCode.UNKNOWN_SCHEMA: CodeInfo(
            _DECODE,
            "the registry has no schema with the id in the record",
            "register it again, or fix  records.registry: the id may be another registry's",
        ),
        RejectCode.SCHEMA_UNUSABLE: CodeInfo(
            _DECODE,
            "the record's schema is of another format, or cannot be mapped to columns",
            "fix  records.format, or the schema: recursive schemas have no columns",
        ),
        RejectCode.NOT_UNPACKED: CodeInfo(
            _DECODE,
            "the value is not compressed as declared, or is damaged",
            "fix  records.compression, or the producer",
        ),
        RejectCode.SLOW: CodeInfo(
            _LIMIT,
            "an expression of the spec takes too long for the record, even on its own",
            "simplify the expression, or limit its input; then retry the record",
        ),
        RejectCode.NO_ENVELOPE: CodeInfo(
            _UNWRAP,
            "the value is not in the declared envelope",
            "fix  records.envelope, or read the topic by a rule of its own",
        ),
        RejectCode.UNKNOWN_OPERATION: CodeInfo(
            _UNWRAP,
            "the envelope, or the field or header of  operation, names an unknown operation",
            "add it to  operation.map; for an envelope, please report which source sends it",
        ),
        RejectCode.IMAGE_MISSING: CodeInfo(
            _UNWRAP,
            "the envelope holds no row for its operation",
            "make the source send whole rows, also for deletes (REPLICA IDENTITY FULL)",
        ),
        RejectCode.NOT_AVAILABLE: CodeInfo(
            _UNWRAP,
            "the source replaced a value that did not change by a placeholder",
            "make the source send whole rows, or set  schema.types: drop_value  to land null",
        ),
        RejectCode.SEVERAL_ROWS: CodeInfo(
            _UNWRAP,
            "the envelope holds several rows in one record",
            "make the source send one row per record",
        ),
        RejectCode.TOO_LARGE: CodeInfo(
            _LIMIT, "the value has more bytes than allowed", "raise  limits.record_bytes"
        ),
        RejectCode.TOO_DEEP: CodeInfo(
            _LIMIT, "objects and arrays are nested deeper than allowed", "raise  limits.depth"
        ),
        RejectCode.POISON: CodeInfo(
            _LIMIT,
            "this record kills the process that reads it, even on its own",
            "find the cause, such as a worker's memory or a library that crashes; then retry it",
        ),
        RejectCode.UNEXPECTED: CodeInfo(
            _LIMIT,
            "decoding this record raises an unexpected error, even on its own",
            "please report it, with the record if you can; retry it with a version that fixes it",
        ),
        RejectCode.NO_PARTITION: CodeInfo(
            _LIMIT,
            "truncated for the table's partitioning, the value is below the minimum of its type",
            "give the column a wider type, or partition the table differently",
        ),
        RejectCode.UNKNOWN_FIELD: CodeInfo(
            _CONVERT,
            "the table has no such column",
            "add the column, or set  schema.columns: drop_value  or evolve, within  limits.columns"
            "  and  limits.new_columns_per_hour",
        ),
        RejectCode.MISSING: CodeInfo(
            _CONVERT, "a required column is null or missing", "make the column optional"
        ),
        RejectCode.WRONG_TYPE: CodeInfo(
            _CONVERT,
            "the value's type does not fit the column's type",
            "correct the column's type with  schema.hints, or set  schema.types: drop_value; what"
            "  schema.types: rescue  keeps needs a string column _rescued in the table",
        ),
        RejectCode.OUT_OF_RANGE: CodeInfo(
            _CONVERT,
            "the value is outside the range of the column's type",
            "choose a wider type with  schema.hints",
        ),
        RejectCode.INEXACT: CodeInfo(
            _CONVERT,
            "the value would have to be rounded",
            "choose a type with more digits with  schema.hints",
        ),
        RejectCode.UNREADABLE: CodeInfo(
            _CONVERT,
            "the text is not a value of the column's type",
            "correct the column's type with  schema.hints",
        ),
        RejectCode.ZONE_MISSING: CodeInfo(
            _CONVERT,
            "a timestamp has no zone, or is a local time that is not unique in the assumed zone",
            "set  assume_zone, or make the column a timestamp",
        ),
        RejectCode.ZONE_UNEXPECTED: CodeInfo(
            _CONVERT,
            "a timestamp for a column without zone has an offset",
            "set  drop_offset, or make the column a timestamptz",
        ),
        RejectCode.WRONG_LENGTH: CodeInfo(
            _CONVERT,
            "the bytes do not have the length of the column's type",
            "choose binary, or the right length, with  schema.hints",
        ),
        RejectCode.UNIT_MISSING: CodeInfo(
            _CONVERT,
            "a number is used for a date or time, and its unit is not declared",
            "make the column a long",
        ),
        RejectCode.NO_COLUMNS: CodeInfo(
            _CONVERT,
            "no field has a value, and the table does not exist yet",
            "create the table, or wait for a record that gives it columns",
        ),
        RejectCode.EMPTY_TEXT: CodeInfo(
            _CONVERT,
            "the column partitions the table, and the format reads its empty text back as null",
            "send null or a placeholder word, or partition by another column",
        ),
        RejectCode.KEY_MISSING: CodeInfo(
            _CONVERT,
            "a column of the key is null or missing",
            "fix the producer, or choose  keys  that every record has",
        ),
        RejectCode.KEY_ALONE: CodeInfo(
            _CONVERT,
            "the record brings the key of a deleted row alone, and another column is required",
            "make the column optional, let the source send the row before it (in PostgreSQL"
            "  REPLICA IDENTITY FULL), or write  deletes: hard",
        ),
        RejectCode.SEQUENCE_MISSING: CodeInfo(
            _CONVERT,
            "a column of the sequence is null or missing",
            "fix the producer, or choose columns for  sequence_by  that every record has, deletes"
            " too; a record without a value has those from beside it, as  _kafka_timestamp",
        ),
        RejectCode.CONSTRAINT: CodeInfo(
            _CONVERT,
            "a constraint of the table is false or null for the row",
            "fix the producer, or drop the constraint from the table, then retry the record",
        ),
        RejectCode.TOO_LONG: CodeInfo(
            _CONVERT,
            "a text has more characters than its char or varchar column allows",
            "fix the producer, or give the column a longer type, then retry the record",
        ),
        RejectCode.NOT_COMPUTED: CodeInfo(
            _CONVERT,
            "an expression of the table cannot be computed for the row: a number is too large, or a"
            " divisor is zero",
            "fix the producer, or the expression in the table, then retry the record",
        ),
        RejectCode.NOT_AS_GENERATED: CodeInfo(
            _CONVERT,
            "the record gives a generated column another value than the table's expression has",
            "leave the field out of the record, or fix the producer",
        ),
        RejectCode.UNDECIDED: CodeInfo(
            _ROUTE,
            "an expression of the spec cannot be computed for the record",
            "guard it: try_cast(…) returns null where cast fails, try(…) where anything does",
        ),
        RejectCode.UNROUTABLE: CodeInfo(
            _ROUTE,
            "a field in the table's name is null, empty, too long, or has characters other than"
            " letters, digits, blank and _-./:; or the name is another rule's table",
            "give such records a rule of their own with  where, or map them in  route",
        ),
        RejectCode.UNKNOWN_TABLE: CodeInfo(
            _ROUTE,
            "the record asks for a table that does not exist, and none is created for it",
            "create the table, or set  unknown_tables: create; see  limits.tables",
        ),
        RejectCode.UNCOMPUTED: CodeInfo(
            _CONVERT,
            "the function of  transform  raises an error for the record, even on its own",
            "fix the function, then retry the record",
        ),
    }
)

NO_TEXT = "an empty text, which the table's format reads back as null"
_TEXT_LENGTH_MAX = 200


OF_TYPES = frozenset(
    {RejectCode.WRONG_TYPE, RejectCode.OUT_OF_RANGE, RejectCode.INEXACT, RejectCode.UNREADABLE}
)
"""Codes of values that `types` has a say in; `types: rescue` keeps them."""


class RejectError(Exception):
    """Why one record or value cannot be landed exactly; never leaves this package."""

    def __init__(self, code: RejectCode, reason: str, path: str = "") -> None:
        super().__init__(code, reason, path)
        self.code = code
        self.reason = reason
        self.path = path

    @property
    def message(self) -> str:
        """Return path and reason: one bounded, printable line without the record's values."""
        return safe_text(f"{self.path}: {self.reason}" if self.path else self.reason)

    def without_traceback(self) -> RejectError:
        """Return the same without the frames and errors it came by: a block may hold many."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


def field_of(stage: str, message: str) -> str:
    """Return the column's path that a reject's message begins with; "" when none is named."""
    path, colon, _ = message.partition(": ")
    return path if colon and stage in (Stage.CONVERT, Stage.UNWRAP) else ""


def safe_text(text: str, length_max: int = _TEXT_LENGTH_MAX) -> str:
    """Return a bounded text without control characters, whatever a record's keys were."""
    cut = text if len(text) <= length_max else f"{text[: length_max - 1]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "�" for c in cut)
