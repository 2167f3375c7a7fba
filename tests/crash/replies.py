"""Lost replies, the fourth blow of the matrix: an act was done outside, and its answer is lost.

A run is held at the point before an act, its line is set to lose the next answer, and it goes on.
Tables are named by a REST catalog (Iceberg) or lie in S3 (Delta), the pending store in PostgreSQL;
a proxy before each closes the connection when the answer is there. Points at which
nobody outside is asked have no reply to lose: a plan, a result, a local file, an end.

Invariants:
- the run ends by itself, landed or with an error that asks to try again later, never P7xx;
- of the pending store, only the reply to the act's own statement is lost: a heartbeat or a read
  that ends first is answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.crash.field import Field
from tests.servers import postgresql_proxy
from tests.servers.lying import Liar, Lie, lying
from tests.servers.postgresql import PASSWORD, USER
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.core.crash_points import CrashPoint

TRY_LATER = 75
LANDED_OR_LATER = {0, TRY_LATER}


class Asked(StrEnum):
    """Who answers: the pending store, or what keeps the tables."""

    STORE = "store"
    TABLES = "tables"


ACTS: Mapping[CrashPoint, Asked] = {
    CrashPoint.CLAIM_BEFORE: Asked.STORE,
    CrashPoint.PREPARE_BEFORE: Asked.STORE,
    CrashPoint.SETTLE_BEFORE: Asked.STORE,
    CrashPoint.HEARTBEAT_BEFORE: Asked.STORE,
    CrashPoint.RELEASE_BEFORE: Asked.STORE,
    CrashPoint.FILE_WRITTEN: Asked.TABLES,
    CrashPoint.CREATE_BEFORE: Asked.TABLES,
    CrashPoint.EVOLVE_BEFORE: Asked.TABLES,
    CrashPoint.COMMIT_BEFORE: Asked.TABLES,
    CrashPoint.QUARANTINE_BEFORE: Asked.TABLES,
    CrashPoint.ANCHOR_BEFORE: Asked.TABLES,
    CrashPoint.FENCE_BEFORE: Asked.TABLES,
}
NOT_OF_REST = frozenset(
    {CrashPoint.FILE_WRITTEN}
)  # its files are here; test_lies_about_objects has S3
_ALIVE = rb"UPDATE penstock\.pipelines SET alive_until_ms=[^\0]*\0\0\x02"
_BIGINT, _SMALLINT = rb"\0\0\0\x14", rb"\0\0\0\x15"  # pg_type: a moment, and the 0 of an end
_SAID: Mapping[CrashPoint, bytes] = {  # other threads write and read meanwhile
    CrashPoint.CLAIM_BEFORE: rb"UPDATE penstock\.pipelines SET generation=",
    CrashPoint.PREPARE_BEFORE: rb"INSERT INTO penstock\.commits ",
    CrashPoint.SETTLE_BEFORE: rb"UPDATE penstock\.commits SET state=",
    CrashPoint.HEARTBEAT_BEFORE: _ALIVE + _BIGINT,
    CrashPoint.RELEASE_BEFORE: _ALIVE + _SMALLINT,
}
_WRITES = {"iceberg": r"^POST .*/tables", "delta": r"^PUT .*/_delta_log/\d+\.json"}
_FILES = r"^(PUT|POST) .*\.parquet"


@dataclass(slots=True)
class Line:
    """The line of one field to one of the servers."""

    lose: Callable[[CrashPoint], None]
    forget: Callable[[], None]
    count: Callable[[], int]


@dataclass(slots=True)
class Lines:
    """Servers and the proxies before them, started when first needed; `server` gives a fixture."""

    server: Callable[[str], Any]
    bootstrap: str
    stack: ExitStack
    _proxies: dict[str, Any] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def field(
        self, place: Path, connector: str, tables: int, point: CrashPoint, *, keyed: bool
    ) -> tuple[Field, Line]:
        """Make a field whose line to the server that answers at a point can lose answers."""
        name = f"replies{next(self._numbers)}-{connector}"
        if ACTS[point] is Asked.STORE:
            given, line = self._store()
        else:
            given, line = self._rest(name) if connector == "iceberg" else self._s3()
        made = Field(place, self.bootstrap, name, connector, tables, keyed=keyed, **given)
        return made, line

    def _store(self) -> tuple[dict[str, Any], Line]:
        server = self.server("postgresql")
        if "store" not in self._proxies:
            entered = self.stack.enter_context(postgresql_proxy.before(server.port))
            self._proxies["store"] = entered
        proxy = self._proxies["store"]
        login = f"{USER}:${{env:FIELD_PASSWORD}}"
        store = f"postgresql://{login}@127.0.0.1:{proxy.port}/{server.database()}"
        line = Line(lambda point: proxy.queue(_SAID[point]), proxy.clear, lambda: proxy.lost)
        return {"store": store, "environment": {"FIELD_PASSWORD": PASSWORD}}, line

    def _rest(self, name: str) -> tuple[dict[str, Any], Line]:
        liar = self._liar("rest_catalog", self.server("rest_catalog"))
        settings = {"type": "rest", "uri": liar.address}
        return {"catalog": settings, "room": f"{name.partition('-')[0]}_"}, _line(liar, "iceberg")

    def _s3(self) -> tuple[dict[str, Any], Line]:
        s3 = self.server("s3")
        liar = self._liar("s3", s3.endpoint)
        bucket = s3.bucket()
        options = {"region": REGION, "allow_http": "true"}
        mine = {"access_key_id": "${env:LAKE_KEY}", "secret_access_key": "${env:LAKE_SECRET}"}
        theirs = {"access_key_id": KEY, "secret_access_key": SECRET}
        root = {"root": f"s3://{bucket}/lake"}
        given = {
            "catalog": {
                "type": "delta",
                **root,
                "storage_options": {**options, **mine, "endpoint_url": liar.address},
            },
            "other_writer": {
                **root,
                "storage_options": {**options, **theirs, "endpoint_url": s3.endpoint},
            },
            "environment": {"LAKE_KEY": KEY, "LAKE_SECRET": SECRET},
            "remove": lambda path: s3.client().delete_object(
                Bucket=bucket, Key=path.removeprefix(f"s3://{bucket}/")
            ),
        }
        return given, _line(liar, "delta")

    def _liar(self, name: str, address: str) -> Liar:
        if name not in self._proxies:
            self._proxies[name] = self.stack.enter_context(lying(address))
        return self._proxies[name]


def _line(liar: Liar, connector: str) -> Line:
    def lose(point: CrashPoint) -> None:
        pattern = _FILES if point is CrashPoint.FILE_WRITTEN else _WRITES[connector]
        liar.queue(pattern, Lie.LOSE_ANSWER)

    return Line(lose, liar.clear, lambda: len(liar.reported))
