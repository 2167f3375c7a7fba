"""Files of several row groups, landed by us: what a filter finds is what a full scan finds."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import GreaterThan, LessThan

from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.schema import Field, Kind, Struct
from penstock.testing.prepared import prepared

ROWS = Struct((Field("id", Kind.LONG), Field("text", Kind.STRING), Field("raw", Kind.BINARY)))
EACH_ROW = {"write.parquet.row-group-size-bytes": "1"}
TEXTS = ["m", "a" * 5000, "z" * 5000, None, "n", ""]


def land(lake, texts):
    table = lake.create(ROWS, properties=EACH_ROW)
    state = table.state(lake.chain)
    rows = [
        {"id": number, "text": text, "raw": None if text is None else text.encode()}
        for number, text in enumerate(texts)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=file_schema(lake.foreign().schema()))
    commit = prepared(
        lake.chain,
        {0: (0, len(rows))},
        files=lake.write(state, batch),
        uuid=state.uuid,
        schema_id=state.schema_id,
    )
    table.commit(state, commit, retain=25)


def test_a_filter_finds_the_rows_of_row_groups_without_bounds(lake):
    land(lake, TEXTS)
    foreign = lake.foreign()
    rows = foreign.scan().to_arrow()
    (task,) = foreign.scan().plan_files()
    footers = (
        duckdb.connect()
        .execute(
            "select count(*) filter (where stats_max_value is null) from parquet_metadata(?) "
            "where path_in_schema = 'text'",
            [task.file.file_path],
        )
        .fetchone()
    )
    assert (3,) == footers, "two row groups of long values and one of nulls have no bounds"

    for name, cast in (("text", str), ("raw", str.encode)):
        for at in ("y", "n", "b", "zz", ""):
            for made, compared in ((GreaterThan, pc.greater), (LessThan, pc.less)):
                expected = set(rows.filter(compared(rows[name], cast(at)))["id"].to_pylist())
                found = foreign.scan(row_filter=made(name, cast(at))).to_arrow()
                sign = ">" if made is GreaterThan else "<"
                by_duckdb = (
                    duckdb.connect()
                    .execute(
                        f"select id from read_parquet(?) where {name} {sign} ?",
                        [task.file.file_path, cast(at)],
                    )
                    .fetchall()
                )

                assert expected == set(found["id"].to_pylist()), (name, at, sign)
                assert expected == {id_ for (id_,) in by_duckdb}, (name, at, sign)


def test_a_delete_by_metadata_takes_only_rows_that_match(lake):
    land(lake, ["m", "a" * 5000, "z" * 5000])
    lake.foreign().delete(LessThan("text", "n"))

    assert [2] == lake.ids()
