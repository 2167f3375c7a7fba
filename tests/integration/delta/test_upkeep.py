"""What a sweep of a Delta table leaves: all that the log names, in whatever kind of checkpoint."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.integration.delta.lake import CHAIN, Lake, origin
from tests.integration.maintaining import maintained, swept

from penstock.connectors.delta import connector
from penstock.testing.prepared import orders

PREFIX = "shop-1-0-0c0ffee0"


@pytest.fixture
def lake(tmp_path):
    """Open a lake with a table of one live file in the place of three, and of one that is lost."""
    lake = Lake(tmp_path)
    lake.create(origin(CHAIN, {0: 0}))
    for first in (0, 2, 4):
        land(lake, first)
    assert 1 == maintained(CHAIN, lake.table, connector).groups
    lake.write(lake.state(), orders({0: (90, 92)}), PREFIX)
    return lake


def land(lake, first):
    ranges = {0: (first, first + 2)}
    lake.land(ranges, files=lake.write(lake.state(), orders(ranges), PREFIX))


def stored(lake):
    """Name the data files on storage."""
    return {each.name for each in lake.location.glob("*.parquet")}


def there(value):
    """Leave out what has no value."""
    if not isinstance(value, dict):
        return value
    return {key: there(each) for key, each in value.items() if each is not None}


def in_sidecars(lake):
    """Write the newest checkpoint again as one of the second kind, with a file of its actions."""
    log = lake.location / "_delta_log"
    (classic,) = log.glob("*.checkpoint.parquet")
    actions = pq.ParquetFile(classic).read()
    (log / "_sidecars").mkdir()
    pq.write_table(actions.select(["add", "remove"]), log / "_sidecars/a.parquet")
    size = (log / "_sidecars/a.parquet").stat().st_size
    sidecar = {"path": "a.parquet", "sizeInBytes": size, "modificationTime": 1}
    version = int(classic.name.split(".")[0])
    others = actions.drop_columns(["add", "remove"]).to_pylist(maps_as_pydicts="strict")
    lines = [{"checkpointMetadata": {"version": version}}, {"sidecar": sidecar}]
    lines += filter(None, map(there, others))
    name = f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log / name).write_text("\n".join(map(json.dumps, lines)))
    classic.unlink()
    (log / "_last_checkpoint").unlink()


def in_parts(lake):
    """Write the newest checkpoint again in two parts, of which the first has no removals."""
    log = lake.location / "_delta_log"
    (classic,) = log.glob("*.checkpoint.parquet")
    actions = pq.ParquetFile(classic).read()
    version = classic.name.split(".")[0]
    added = pc.is_valid(actions["add"])
    parts = (actions.filter(added).drop_columns(["remove"]), actions.filter(pc.invert(added)))
    for number, part in enumerate(parts, 1):
        pq.write_table(part, log / f"{version}.checkpoint.{number:010d}.0000000002.parquet")
    classic.unlink()
    (log / "_last_checkpoint").unlink()


@pytest.mark.parametrize("again", [lambda _: None, in_parts, in_sidecars])
def test_what_a_checkpoint_names_stays(lake, again):
    lake.handle.create_checkpoint()
    again(lake)
    before = stored(lake)
    names = {*lake.table.upkeep(lake.state()).named()}

    assert 4 == len(names & before)
    swept(CHAIN, lake.table)
    land(lake, 6)
    assert [*before - names] == swept(CHAIN, lake.table)
    assert before & names < stored(lake)
    assert [*range(8)] == lake.ids()
    assert 2 == pa.table(DeltaTable(lake.location, version=1).scan()).num_rows


def test_files_are_known_where_the_log_was_cleaned_up_since_they_were_looked_at(tmp_path):
    lake = Lake(tmp_path, warm=True)
    lake.create(origin(CHAIN, {0: 0}))
    assert [] == lake.table.live_files(lake.state())
    for first in (0, 2, 4):
        land(lake, first)
    lake.clean_up_log()

    assert f"{1:020d}.json" not in lake.log()
    assert 3 == len(lake.table.live_files(lake.state()))


def test_rows_of_a_table_without_vectors_that_go_meanwhile_are_read_again(tmp_path):
    """Another writer takes a file as a whole, and what was written has its rows."""
    lake = Lake(tmp_path)
    lake.create(origin(CHAIN, {0: 0}))
    for first in (0, 2, 4):
        land(lake, first)
    done = maintained(CHAIN, lake.table, connector, lambda: lake.handle.delete("id = 2"))

    assert (1, 1, 0) == (done.given_up, done.groups, done.carried)
    assert [0, 1, 3, 4, 5] == lake.ids()
    assert 1 == len(lake.table.live_files(lake.state()))
