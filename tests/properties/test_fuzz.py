"""A hundred thousand records, half of them spoilt: what lands is what an oracle reads.

The oracle knows json, decimal and datetime, and none of our code. It decides whether a record may
land and as what; it does not know codes. The records are the same in every run.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import random  # noqa: TID251  seeded, so that every run is the same
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Kind, List, Struct
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import RowOptions

ARROWS_UTC, PYTHONS_UTC = "zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc"
RECORDS, BATCH = 100_000, 10_000
AT = TopicPartition("id", 0, "events")
SCHEMA = Struct(
    (
        Field("id", Kind.LONG, required=True),
        Field("ok", Kind.BOOLEAN),
        Field("small", Kind.INT),
        Field("rate", Kind.DOUBLE),
        Field("price", Decimal(9, 2)),
        Field("name", Kind.STRING),
        Field("data", Kind.BINARY),
        Field("day", Kind.DATE),
        Field("at", Kind.TIMESTAMPTZ),
        Field("tags", List(Kind.STRING)),
        Field("place", Struct((Field("x", Kind.LONG), Field("y", Kind.DOUBLE)))),
    )
)


class RefusedError(Exception):
    """The oracle finds that a record may not land."""


class Text(str):
    """A JSON number as it is written."""

    __slots__ = ()


# The oracle.


def oracle(value: bytes) -> dict[str, Any]:
    """Read a record as the matrix of conversions says, or raise RefusedError."""
    try:
        tree = json.loads(
            value.decode("utf-8"),
            object_pairs_hook=unique,
            parse_int=Text,
            parse_float=Text,
            parse_constant=refuse,
        )
    except (ValueError, RecursionError) as error:
        raise RefusedError from error
    if not isinstance(tree, dict) or depth(tree) > 64 or has_half(tree):
        raise RefusedError
    return read_struct(tree, READERS, required=("id",))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else refuse()


def refuse(*_: Any) -> Any:
    raise RefusedError


def depth(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, members), default=0)


def has_half(value: Any) -> bool:
    match value:
        case dict():
            return any(has_half(key) or has_half(member) for key, member in value.items())
        case list():
            return any(map(has_half, value))
        case str():
            return any("\ud800" <= character <= "\udfff" for character in value)
        case _:
            return False


def nothing(value: Any) -> bool:
    members = value.values() if isinstance(value, dict) else value
    return value is None or (isinstance(value, dict | list) and all(map(nothing, members)))


def read_struct(tree: Any, readers: dict[str, Any], required: tuple[str, ...] = ()) -> Any:
    if not isinstance(tree, dict) or not all(nothing(tree[n]) for n in tree.keys() - readers):
        refuse()
    row = {
        name: None if tree.get(name) is None else read(tree[name]) for name, read in readers.items()
    }
    return row if all(row[name] is not None for name in required) else refuse()


def text(value: Any) -> str:
    return value if type(value) is str else refuse()


def number(value: Any) -> decimal.Decimal:
    if not isinstance(value, str) or not NUMERIC.fullmatch(value):
        refuse()
    try:
        return decimal.Decimal(value)
    except decimal.InvalidOperation:
        return refuse()


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(text(value)) if text(value) in TRUTH else refuse()


def whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        exact = number(value)
        if exact.adjusted() > 20 and exact:
            refuse()
        if exact.as_tuple().exponent < -400 and exact:
            refuse()
        if exact != int(exact) or not -(2**bits) <= int(exact) < 2**bits:
            refuse()
        return int(exact)

    return read


def double(value: Any) -> float:
    exact = number(value)
    found = float(value)
    if found in (float("inf"), float("-inf")):
        refuse()
    if re.fullmatch(r"[+-]?[0-9]+", value) and int(exact) != int(found):
        refuse()
    return found


def price(value: Any) -> decimal.Decimal:
    exact = number(value)
    if not exact:
        return decimal.Decimal("0.00")
    if exact.adjusted() > 6:
        refuse()
    with decimal.localcontext(decimal.Context(prec=2000, Emin=-(10**9))):
        cents = exact * 100
        if cents != cents.to_integral_value() or abs(cents) >= 10**9:
            refuse()
        return decimal.Decimal(int(cents)).scaleb(-2)


def binary(value: Any) -> bytes:
    try:
        found = base64.b64decode(text(value).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return refuse()
    return found if base64.b64encode(found).decode() == value else refuse()


def day(value: Any) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text(value), re.ASCII):
        refuse()
    try:
        return date.fromisoformat(value)
    except ValueError:
        return refuse()


def moment(value: Any) -> datetime:
    found = STAMP.fullmatch(text(value))
    if not found:
        return refuse()
    days, clock, seconds, fraction, sign, hours, minutes = found.groups()
    micros = (fraction or "").rstrip("0")
    if len(micros) > 6 or int(hours or 0) > 23 or int(minutes or 0) > 59:
        refuse()
    try:
        local = datetime.fromisoformat(f"{days}T{clock}:{seconds or '00'}").replace(tzinfo=UTC)
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        local += timedelta(microseconds=int(micros.ljust(6, "0")))
        return local - (-offset if sign == "-" else offset)
    except (ValueError, OverflowError):
        return refuse()


def tags(value: Any) -> list[str | None]:
    if not isinstance(value, list):
        refuse()
    return [None if each is None else text(each) for each in value]


def place(value: Any) -> dict[str, Any]:
    return read_struct(value, {"x": whole(63), "y": double})


TRUTH = ("true", "false")
NUMERIC = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
STAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)",
    re.ASCII,
)
READERS = {
    "id": whole(63),
    "ok": boolean,
    "small": whole(31),
    "rate": double,
    "price": price,
    "name": text,
    "data": binary,
    "day": day,
    "at": moment,
    "tags": tags,
    "place": place,
}

# The records.

ODD = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.50",
    "2.7",
    "1e3",
    "1E-2",
    "1e400",
    "1e-400",
    "-0.0",
    "9007199254740993",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "12345678901234567890123",
    "9999999.99",
    "10000000",
    "0.001",
    '""',
    '"1"',
    '"1.5"',
    '"-2"',
    '"+3"',
    '"',
    '4"',
    '"0x1"',
    '"1_0"',
    '"NaN"',
    "NaN",
    "Infinity",
    '"true"',
    '"True"',
    '"AAEC"',
    '"AA=="',
    '"AB=="',
    '"AA"',
    '"é"',
    '"\\u0000"',
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"2026-11-21"',
    '"2026-02-29"',
    '"0000-01-01"',
    '"9999-12-31"',
    '"2026-1-1"',
    '"2026-11-21T10:00:00Z"',
    '"2026-11-21T10:00Z"',
    '"2026-11-21T10:00:00"',
    '"2026-11-21T10:00:00.1234567Z"',
    '"2026-11-21T10:00:00.120000000+02:30"',
    '"0001-01-01T00:00:00+01:00"',
    '"9999-12-31T23:59:59.999999Z"',
    '"2026-11-21T24:00:00Z"',
    '"2026-11-21T23:59:60Z"',
    '"1969-12-31T23:59:59.999999-0030"',
    '"12:00"',
    "[]",
    "[1]",
    '["a"]',
    '["a",null]',
    "[null]",
    "[[]]",
    "{}",
    '{"x":1}',
    '{"x":"2","y":0.5}',
    '{"x":1,"x":1}',
    '{"y":1e999}',
    '{"z":null}',
    '{"z":1}',
    '{"x":{}}',
]
GOOD: dict[str, Callable[[random.Random], str]] = {
    "id": lambda r: str(r.randrange(-(2**62), 2**62)),
    "ok": lambda r: r.choice(("true", "false")),
    "small": lambda r: str(r.randrange(-(2**31), 2**31)),
    "rate": lambda r: repr(r.uniform(-1e6, 1e6)),
    "price": lambda r: f"{r.randrange(-(10**8), 10**8) / 100:.2f}",
    "name": lambda r: json.dumps(r.choice(("Ann", "Bé", "", "x" * 20))),
    "data": lambda r: json.dumps(base64.b64encode(r.randbytes(r.randrange(6))).decode()),
    "day": lambda r: json.dumps(date.fromordinal(r.randrange(1, 3652060)).isoformat()),
    "at": lambda r: json.dumps(f"{datetime.fromtimestamp(r.randrange(2**32), UTC).isoformat()}"),
    "tags": lambda r: json.dumps(["a"] * r.randrange(3)),
    "place": lambda r: f'{{"x":{r.randrange(9)},"y":{r.random()}}}',
}


def record(generator: random.Random) -> bytes:
    members = {name: good(generator) for name, good in GOOD.items() if generator.random() < 0.9}
    if generator.random() < 0.35:
        members[generator.choice(list(GOOD))] = generator.choice(ODD)
    if generator.random() < 0.02:
        members["extra"] = generator.choice(ODD)
    space = generator.choice(("", "", "", " ", "\n\t"))
    value = ("{" + ",".join(f'"{n}":{space}{v}' for n, v in members.items()) + "}").encode()
    if generator.random() < 0.15:
        spoilt = bytearray(value)
        at = generator.randrange(len(spoilt))
        spoilt[at : at + generator.randrange(3)] = generator.choice(
            (b"", b'"', b"{", b"}", b",", b"\\", b"\xff", b"0", b"e", generator.randbytes(2))
        )
        value = bytes(spoilt)
    return value


def batch_of(values: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.nulls(len(values), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


@pytest.mark.parametrize("seed", range(RECORDS // BATCH))
def test_fuzzed_records_land_as_the_oracle_reads_them_or_not_at_all(seed: int) -> None:
    generator = random.Random(seed)
    values = [record(generator) for _ in range(BATCH)]

    done = convert_batch(batch_of(values), at=AT, schema=SCHEMA, options=RowOptions({}))

    landed = dict(zip(done.offsets.tolist(), done.rows.to_pylist(), strict=True))
    assert BATCH == len(landed) + len(done.rejects)
    for offset, value in enumerate(values):
        try:
            expected = oracle(value)
        except RefusedError:
            expected = None
        assert repr(expected) == repr(landed.get(offset)).replace(ARROWS_UTC, PYTHONS_UTC), value
    assert 0.4 < len(landed) / BATCH < 0.95
