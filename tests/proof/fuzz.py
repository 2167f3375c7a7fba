"""Fuzzing of all that reads what others wrote: no crash, no hang, nothing accepted in silence.

    python tests/proof/fuzz.py 10            all targets, ten minutes in all (make fuzz)
    python tests/proof/fuzz.py 2 ledger      one target, for two minutes

- A target is a function of bytes that raises when a promise is broken: anything but our own refusal,
  or a value that was accepted and reads otherwise when it is written again or read another way.
- With atheris (Linux and macOS, `requirements/fuzz.lock`) libFuzzer looks for inputs that reach new
  code; each target runs in a process of its own, and what breaks it is written next to the corpus.
- What was found stays as a seed in `SEEDS`; `make test` plays seeds and some thousand damages of them.
"""

from __future__ import annotations

import json
import random  # noqa: TID251  seeded: damages are the same in every run
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/design/spec/results/fuzz.txt"
INPUT_BYTES_MAX = 4096
HANG_SECONDS = 20
MEMBERS = ({"name", "offsets"}, {"path", "records", "bytes", "ranges", "partition", "detail"})
"""Members of topics in ledgers, and of files in pending rows."""
Target = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of a target came to."""

    name: str
    inputs: int
    features: int
    seconds: int
    broken: bool

    def __str__(self) -> str:
        verdict = "BROKEN" if self.broken else "held"
        return (
            f"{self.name:<12}{self.inputs:>12,} inputs{self.features:>8,} features"
            f"{self.seconds:>7,} s  {verdict}"
        )


def targets() -> Mapping[str, Target]:
    """Return the targets by name; imports all that they read with."""
    return {
        "ledger": _ledger(),
        "pending": _pending(),
        "spec": _spec(),
        "json": _json(),
        "avro": _avro(),
        "connect": _connect(),
        "envelopes": _envelopes(),
        "framing": _framing(),
        "batches": _batches(),
    }


def _ledger() -> Target:
    from penstock.core import serialization

    return _written_again(serialization.ledger_from_json, serialization.ledger_to_json)


def _pending() -> Target:
    from penstock.core import serialization

    return _written_again(serialization.committable_from_json, serialization.committable_to_json)


def _written_again(read: Callable[[str], Any], write: Callable[[Any], str]) -> Target:
    from penstock.core.errors import InvalidError

    def target(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        with suppress(InvalidError):
            value = read(text)
            assert value == read(write(value)), "it reads otherwise when it is written again"
            given, again = json.loads(text), json.loads(write(value))
            for name in given.keys() & again.keys():
                assert _told(given[name]) == _told(again[name]), f"{name} was taken for another"

    return target


def _told(value: Any) -> str:
    """Show a value so that equal ones look equal, whatever their rows' order.

    What a later version may add to a topic or a file is left out.
    """
    if isinstance(value, list):
        return repr(sorted(map(_told, value)))
    if isinstance(value, dict):
        known = next((each for each in MEMBERS if each <= value.keys()), value.keys())
        return repr(sorted((name, _told(each)) for name, each in value.items() if name in known))
    return repr(value)


def _spec() -> Target:
    from penstock.core.errors import PenstockError
    from penstock.spec.load import loads
    from penstock.spec.model import Pipeline

    def target(data: bytes) -> None:
        with suppress(PenstockError):
            assert isinstance(loads(data, base=Path("/nowhere")), Pipeline)

    return target


def _json() -> Target:
    from tests.properties import test_fuzz as oracle

    from penstock.rows.convert.batch import convert_batch
    from penstock.rows.options import RowOptions

    def target(data: bytes) -> None:
        values = data.split(b"\n\n")[:5]
        batch = oracle.batch_of(values)
        done = convert_batch(batch, at=oracle.AT, schema=oracle.SCHEMA, options=RowOptions({}))
        landed = dict(zip(done.offsets.tolist(), done.rows.to_pylist(), strict=True))
        assert len(values) == len(landed) + len(done.rejects)
        for offset, value in enumerate(values):
            expected = None
            with suppress(oracle.RefusedError):
                expected = oracle.oracle(value)
            found = repr(landed.get(offset)).replace(oracle.ARROWS_UTC, oracle.PYTHONS_UTC)
            assert repr(expected) == found, value

    return target


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["a", "b"]}},
        {"name": "maybe", "type": ["null", "string", "double"]},
        {"name": "many", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "named", "type": {"type": "map", "values": "bytes"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "next", "type": ["null", {"type": "record", "name": "N", "fields": []}]},
        {"name": "ok", "type": "boolean"},
    ],
}


def _avro() -> Target:
    import pyarrow as pa
    from tests.properties.test_avro import dicts, same

    from penstock.rows.decode.avro.block_reader import read_block
    from penstock.rows.decode.avro.datum_reader import read_datum
    from penstock.rows.decode.avro.schema import parse_schema
    from penstock.rows.reject_codes import RejectError

    node = parse_schema(json.dumps(AVRO))

    def target(data: bytes) -> None:
        decoded = read_block(node, pa.array([data, data], pa.binary()))
        decoded.array.validate(full=True)
        try:
            read = read_datum(node, data)
        except RejectError:
            assert decoded.uncertain.all(), "accepted by columns, refused by itself"
        else:
            assert decoded.uncertain.all() or same(read, dicts(decoded.array[0].as_py()))

    return target


def _connect() -> Target:
    import numpy as np
    import pyarrow as pa

    from penstock.rows.decode.decoder import ReaderCache, decode_values
    from penstock.rows.options import RowOptions

    options = RowOptions({}, format="json-schema-envelope")

    def target(data: bytes) -> None:
        batch = pa.record_batch({"value": pa.array([data], pa.binary())})
        for group in decode_values(batch, np.arange(1), options, ReaderCache(), {}).groups:
            if group.reader is None:
                continue
            decoded = group.reader.block(group.values)
            decoded.array.validate(full=True)
            assert len(decoded.array) == len(group.values)

    return target


def _envelopes() -> Target:
    from penstock.rows.decode.envelope.json_envelopes import unwrap
    from penstock.rows.decode.format_reader import NoRowError
    from penstock.rows.options import Envelope
    from penstock.rows.reject_codes import RejectError

    columns = {"operation": "_op", "timestamp": "_at", "source": "_source"}

    def target(data: bytes) -> None:
        for envelope in get_args(Envelope):
            if envelope == "none":
                continue
            # A text that is not UTF-8 is found on landing.
            with suppress(RejectError, NoRowError, UnicodeDecodeError):
                row = unwrap(data, envelope, columns, depth_max=64)
                assert isinstance(json.loads(row), dict)

    return target


def _framing() -> Target:
    import pyarrow as pa

    from penstock.rows.decode.schema_id import group_by_schema
    from penstock.rows.options import RowOptions

    plans = [
        RowOptions({}, format="avro"),
        RowOptions({}, format="avro", framing="single-object"),
        RowOptions({}, format="protobuf"),
    ]

    def target(data: bytes) -> None:
        values = pa.array([data, data[1:], b""], pa.binary())
        for options in plans:
            groups, rejects = group_by_schema(values, None, options)
            found = sorted([*rejects, *(int(at) for each in groups for at in each.positions)])
            assert [0, 1, 2] == found, "each value is in one group, or rejected"

    return target


def _batches() -> Target:
    import numpy as np

    from penstock.connectors.kafka.native.connection import FallbackError
    from penstock.connectors.kafka.native.record_columns import PAD, Records

    def target(data: bytes) -> None:
        count, records = max([1, *data[:1]]), data[1:]
        with suppress(FallbackError):
            padded = np.frombuffer(records + bytes(PAD), np.uint8)
            found = Records(padded, [len(records)], [count])
            lengths = {len(each) for each in (found.key(), found.value(), found.headers())}
            assert {count} == lengths

    return target


LEDGER = (
    b'{"v":1,"chain":"shop","cluster":"c","generation":1,"owner":"o","segment":0,"rules":"r",'
    b'"recent":[["id","d"]],"valid_through_ms":null,"leader_epochs":[["t",0,"orders",3]],'
    b'"topics":{"t":{"name":"orders","offsets":{"0":5}}}}'
)
PENDING = (
    b'{"v":1,"chain":"shop","table":"lake.t","uuid":"u","segment":0,"id":"i","attempt":"a",'
    b'"generation":1,"owner":"o","cluster":"c","epoch":1,"kind":"append",'
    b'"progress":[["t",0,"orders",0,5]],"files":[{"path":"p","records":5,"bytes":9,'
    b'"ranges":[["t",0,"orders",0,5]],"partition":"","detail":""}],"rules":"r","schema_id":0,'
    b'"valid_through_ms":7,"origins":{},"leader_epochs":[],'
    b'"tallies":[["t",0,"orders",5,5,{"w":1},{}]]}'
)
SPEC = b"""name: shop
kafka: { brokers: "localhost:9092", topics: [orders, { pattern: "shop[.].*" }] }
catalogs: { lake: { type: sql, uri: "sqlite:///./lake/c.db", warehouse: ./lake } }
tables:
  - { from: orders, into: lake.shop.orders, continue: true, schema: { create: true } }
commit: { every: 30s, or_bytes: 256MB }
quarantine: { into: lake.ops.quarantine, stop_above: 1% }
"""
JSON = b"""{"id":7,"ok":true,"price":1.50,"name":"x","at":"2026-11-21T10:00Z","tags":["a"]}

{"id":"9223372036854775807","place":{"x":1,"y":2.5},"day":"2026-11-21","data":"AA=="}"""
CONNECT = (
    b'{"schema":{"type":"struct","fields":[{"type":"int64","field":"id","optional":false},'
    b'{"type":"bytes","field":"d","name":"org.apache.kafka.connect.data.Decimal",'
    b'"parameters":{"scale":"2"}}]},"payload":{"id":1,"d":"AJY="}}'
)
CHANGE = b'{"op":"u","ts_ms":1,"before":null,"after":{"id":1},"source":{"db":"shop"}}'
SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "ledger": (LEDGER,),
    "pending": (PENDING,),
    "spec": (SPEC,),
    "json": (JSON,),
    "avro": (b"\x0e\x00\x02\x02x\x02\x02\x04\x00\x02\x02k\x02z\x00abc\x02\x01", b"\x02" * 24),
    "connect": (CONNECT,),
    "envelopes": (CHANGE, b'{"type":"INSERT","data":[{"id":1}],"ts":1,"database":"d"}'),
    "framing": (b"\x00\x00\x00\x00\x07\x00abc", b"\xc3\x01" + bytes(8) + b"x"),
    "batches": (
        b"\x01\x10\x00\x00\x00\x01\x02v\x00",
        b"\x02" + b"\x0c\x00\x00\x00\x01\x01\x00" * 2,
    ),
}
ODD = (None, True, -1, 0, 1 << 63, 1 << 70, 1.5, "", "0", "\x00", "é\u2028", [], {}, [[]], {"": 0})


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Damage bytes; what is JSON stays so half of the time, with something else in it."""
    with suppress(ValueError, RecursionError):
        if chance.random() < 0.5:
            tree = json.loads(data)
            for _ in range(chance.choice((1, 1, 2, 5))):
                tree = _changed(tree, chance)
            return json.dumps(tree).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(data) + 1)
        to = min(at + chance.choice((0, 0, 1, 4)), len(data))
        data = data[:at] + chance.randbytes(chance.choice((0, 1, 1, 3))) + data[to:]
    return data[:INPUT_BYTES_MAX]


def _changed(tree: Any, chance: random.Random) -> Any:
    """Return a tree with one place changed."""
    if chance.random() < 0.2 or not tree or not isinstance(tree, dict | list):
        return chance.choice(ODD)
    places = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    place = chance.choice(places)
    copy = tree.copy()
    if chance.random() < 0.15:
        del copy[place]
    else:
        copy[place] = _changed(tree[place], chance)
    return copy


def damages(name: str, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield the seeds of a target, and damages of them and of each other, always the same."""
    chance = random.Random(f"{name} {seed}")
    kept = [*SEEDS[name]]
    yield from kept
    for _ in range(count):
        data = damaged(chance.choice(kept), chance)
        if len(kept) < len(SEEDS[name]) + 50:
            kept.append(data)
        yield data


def _play(name: str, seconds: int) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["penstock"]):
        target = targets()[name]

    def mutated(data: bytes, size_max: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return bytes(atheris.Mutate(data, size_max))
        return damaged(data, chance)[:size_max]

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(SEEDS[name]):
            (Path(corpus) / f"{number}").write_bytes(data)
        limits = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", "-seed=1"]
        words = [*limits, f"-timeout={HANG_SECONDS}", "-rss_limit_mb=4096", corpus]
        atheris.Setup([sys.argv[0], *words], target, custom_mutator=mutated)
        atheris.Fuzz()


def fuzzed(name: str, seconds: int) -> Figures:
    """Fuzz one target in a process of its own."""
    begun = time.monotonic()
    command = [sys.executable, __file__, "--play", name, str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stderr + done.stdout
    inputs = [int(number) for number in re.findall(r"^#(\d+)\s", said, re.MULTILINE)]
    features = [int(number) for number in re.findall(r" ft: (\d+) ", said)]
    if done.returncode:
        print(said[-4000:], flush=True)
    took = round(time.monotonic() - begun)
    return Figures(
        name, max(inputs, default=0), max(features, default=0), took, done.returncode != 0
    )


def main(words: list[str]) -> int:
    """Fuzz targets one after the other, and keep the figures."""
    from tests.story.unexpected_errors import without_fence

    without_fence()
    if words[0] == "--play":
        _play(words[1], int(words[2]))
        return 0
    names = words[1:] or list(SEEDS)
    found = [fuzzed(name, max(1, round(60 * float(words[0]) / len(names)))) for name in names]
    text = "\n".join(map(str, found))
    print(text)
    if names == list(SEEDS):
        RESULTS.write_text(f"{text}\n")
    return 1 if any(each.broken for each in found) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
