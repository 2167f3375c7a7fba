"""One path in one process, each stage's CPU seconds per million records; the child of `bound`.

Invariants: a stage counts what its own thread used; what other threads of the process used, which
are the Kafka client's, is added to `read`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
WITHIN = {("penstock", "parse")}
MILLION = 1_000_000
PATIENCE_SECONDS = 600.0


@dataclass(slots=True)
class Laps:
    """CPU seconds by stage."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def of(self, stage: str, act: Callable[[], T]) -> T:
        """Do something and note what it took."""
        began = time.thread_time()
        done = act()
        self.seconds[stage] += time.thread_time() - began
        return done


def reference(order: dict[str, Any], start: int, laps: Laps) -> int:
    """Read and write a range by the bound path's calls."""
    from benchmarks import records
    from benchmarks import reference as path

    chunks = path.read(order["brokers"], order["topic"], 0, start, start + order["records"])
    rows = 0
    file = str(Path(order["folder"], f"{start}.parquet"))
    with path.parquet(file, records.ARROW) as writer:
        while (chunk := laps.of("read", partial(next, chunks, None))) is not None:
            lines = laps.of("wrap", partial(path.wrap, chunk))
            parsed = laps.of("parse", partial(path.parse, lines))
            table = laps.of("unwrap", partial(path.unwrap, parsed, records.ARROW))
            laps.of("parquet", partial(writer.write_table, table))
            rows += len(chunk)
        laps.of("parquet", writer.close)
    return rows


def penstock(order: dict[str, Any], start: int, laps: Laps) -> int:
    """Read and write a range by the rooms of a worker.

    Parsing is a part of converting; what it takes is found by doing it once more, alone.
    """
    from benchmarks import making, specs
    from penstock.app.assembly import assembly
    from penstock.core.claims import Claim, Generation
    from penstock.core.offsets import span
    from penstock.rows.convert.batch import convert_batch
    from penstock.rows.convert.blocks import ConversionPlan
    from penstock.rows.decode.json.block_parser import parse_block

    folder = Path(order["folder"], str(start))
    folder.mkdir()
    spec = specs.write(folder, order["brokers"], order["topic"])
    made = making.made(spec, Claim(Generation(1), "bench"), 1)
    options, payload = (
        made.target.options,
        ConversionPlan.of(made.schema, made.target.options).payload,
    )
    (at,) = assembly.open_log(made.pipeline).partitions()
    reader, writer, rows = assembly.open_reader(made.pipeline), made.writer("bench"), 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    fetches = reader.read(at, span(start, start + order["records"]), deadline=deadline)
    while (fetched := laps.of("read", partial(next, fetches, None))) is not None:
        batch = fetched.batch
        if not batch.num_rows:
            continue
        laps.of("parse", partial(parse_block, batch.column("value"), payload))
        act = partial(convert_batch, batch, at=at, schema=made.schema, options=options)
        done = laps.of("convert", act)
        laps.of("parquet", partial(writer.write, done.rows))
        rows += done.rows.num_rows
    laps.of("parquet", writer.close)
    reader.close()
    return rows


PATHS: dict[str, Callable[[dict[str, Any], int, Laps], int]] = {
    "reference": reference,
    "penstock": penstock,
}


def main(order: dict[str, Any]) -> None:
    """Take a path twice, over two ranges, and report the second's stages."""
    import pyarrow as pa

    gc.disable()
    pa.set_cpu_count(1)
    for start in (0, order["records"]):
        laps, before, own = Laps(), time.process_time(), time.thread_time()
        rows = PATHS[order["path"]](order, start, laps)
        assert rows == order["records"], f"{rows} rows of {order['records']} records"
        others = (time.process_time() - before) - (time.thread_time() - own)
        laps.seconds["read"] += others
    separate = [own for stage, own in laps.seconds.items() if (order["path"], stage) not in WITHIN]
    stages = {**laps.seconds, "total": sum(separate)}
    micros = {stage: seconds / rows * MILLION for stage, seconds in stages.items()}
    print(json.dumps({"event": "Measured", "stages": micros}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
