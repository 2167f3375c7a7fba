"""The records that are landed: nested JSON of about 300 bytes, as an online shop might send them.

Invariants:
- record i is the same in every run; its `id` is i, so that a table can be checked by its ids alone;
- everything but the id comes from a pool that is larger than any window of the codecs on the way,
  so that it compresses as if no two were alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

POOL = 99_991
"""A prime, so that a partition has all of the pool, whatever the number of partitions."""
SEED = 11
BEGIN = np.datetime64("2026-11-01T00:00:00.000")
INTERVAL_MS = 7

HINTS = {"ts": "timestamptz"}
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("user_id", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("event", pa.string()),
        ("amount", pa.float64()),
        ("qty", pa.int64()),
        ("ok", pa.bool_()),
        ("device", pa.struct([(name, pa.string()) for name in ("os", "ver", "model")])),
        ("geo", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ("tags", pa.list_(pa.string())),
        ("url", pa.string()),
    ]
)
"""What a table made from these records looks like, without source columns."""

EVENTS = ("view", "click", "add_to_cart", "purchase", "refund")
SYSTEMS = ("ios", "android", "web", "tv")
TAGS = ("a1", "beta", "promo", "vip", "newsletter", "eu", "us")


def values(start: int, stop: int) -> Iterator[bytes]:
    """Yield the values of records start to stop."""
    tails = pool()
    for number in range(start, stop):
        yield b'{"id":%d,%b' % (number, tails[number % POOL])


def updated_keys(start: int, stop: int, rows: int, partitions: int) -> npt.NDArray[np.int64]:
    """Return the keys of records start to stop where they are updates of `rows` keys at random.

    A key is in one partition: that of its record, i modulo their number.
    """
    numbers = np.arange(start, stop, dtype=np.uint64)
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)  # golden ratio: scatters what is consecutive
    mixed ^= mixed >> np.uint64(32)
    drawn = (mixed % np.uint64(rows // partitions)).astype(np.int64)
    found: npt.NDArray[np.int64] = drawn * partitions + numbers.astype(np.int64) % partitions
    return found


def updates(start: int, stop: int, rows: int, partitions: int) -> Iterator[bytes]:
    """Yield the values of records start to stop, which update keys at random."""
    tails = pool()
    keys = updated_keys(start, stop, rows, partitions).tolist()
    for number, key in zip(range(start, stop), keys, strict=True):
        yield b'{"id":%d,%b' % (key, tails[number % POOL])


@cache
def pool() -> list[bytes]:
    """Make the tails of records: all that follows the id."""
    size = POOL
    draw = np.random.default_rng(SEED)
    users = draw.bytes(16 * size).hex()
    stamps = np.datetime_as_string(BEGIN + INTERVAL_MS * np.arange(size)).tolist()
    events, systems = draw.integers(0, 5, size).tolist(), draw.integers(0, 4, size).tolist()
    amounts = (draw.integers(0, 50_000, size) / 100).tolist()
    quantities = draw.integers(1, 11, size).tolist()
    versions = draw.integers(0, (9, 20, 99), (size, 3)).tolist()
    models, pages = draw.integers(0, 40, size).tolist(), draw.integers(0, 10**6, size).tolist()
    places = np.round(draw.uniform((-90, -180), (90, 180), (size, 2)), 6).tolist()
    tags = draw.integers(0, len(TAGS), (size, 4)).tolist()
    return [
        (
            f'"user_id":"{users[32 * i : 32 * i + 32]}","ts":"{stamps[i]}Z",'
            f'"event":"{EVENTS[events[i]]}","amount":{amounts[i] if i % 3 else "null"},'
            f'"qty":{quantities[i]},"ok":{"true" if i % 7 else "false"},'
            f'"device":{{"os":"{SYSTEMS[systems[i]]}","ver":"{_version(versions[i])}",'
            f'"model":{_model(models[i]) if i % 5 == 0 else "null"}}},'
            f'"geo":{{"lat":{places[i][0]},"lon":{places[i][1]}}},"tags":[{_tags(tags[i])}],'
            f'"url":"https://shop.example.com/p/{pages[i]}?ref={TAGS[tags[i][3]]}"}}'
        ).encode()
        for i in range(size)
    ]


def _version(parts: list[int]) -> str:
    return ".".join(map(str, parts))


def _model(number: int) -> str:
    return f'"model-{number}"'


def _tags(numbers: list[int]) -> str:
    return ",".join(f'"{TAGS[each]}"' for each in numbers[: numbers[3] % 4])
