"""What is asked of all shards of a pipeline together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.status import Status
from penstock.core.errors import UnavailableError
from penstock.spec.model import Pipeline


def require_idle(pipeline: Pipeline) -> None:
    """Refuse a change of all shards while one of them runs, as far as their stores know.

    Raises UnavailableError (P510).
    """
    now_ms = SystemClock().now_ms()
    for shard in pipeline.each_shard():
        with closing(assembly.open_store(shard)) as store:
            held = store.holding(shard.name)
        if held is not None and held.alive_until_ms > now_ms:
            raise UnavailableError(
                f"{shard.name} runs, and a change of all shards waits for each to have ended",
                code="P510",
                hint="stop it first, or change the others one by one, with  --shard N",
            )


def valid_through(found: Iterable[Status]) -> dict[str, int | None]:
    """Return through when each table holds all records, in epoch milliseconds: it is the least of
    its shards, and None where one of them has not said so yet.
    """
    times: dict[str, list[int | None]] = {}
    for each in found:
        for name, table in each.snapshot.tables.items():
            times.setdefault(name, []).append(table.valid_through_ms)
    return {
        name: None if None in of_shards else min(filter(None, of_shards), default=None)
        for name, of_shards in sorted(times.items())
    }


def unowned(shards: Sequence[Pipeline], found: Sequence[Status]) -> list[str]:
    """Name the shards that no process holds, as far as their stores know."""
    return [shard.name for shard, each in zip(shards, found, strict=True) if not each.running]
