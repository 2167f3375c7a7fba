"""What the features of a table ask of each entry, where versions race and the log is cleaned up."""

import json
import time
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from tests.integration.delta.lake import CHAIN, COLUMNS, ORDERS, Lake

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.delta.schema.features import WIDENING
from penstock.connectors.delta.schema.types import delta_json
from penstock.core.errors import ConflictError, InvalidError
from penstock.core.maintenance import groups_of
from penstock.core.schema import Decimal as Digits
from penstock.core.schema import Field, Kind, List, Map, Struct

TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}
FEATURES = ("domainMetadata", "rowTracking", "inCommitTimestamp", "clustering")
TOMORROW_MS = (int(time.time()) + 86_400) * 1000
OF_READERS = {WIDENING, "timestampNtz"}
BEGINS = {"origins": {0: 0}}
OF_OTHERS = {"domain": "com.example", "configuration": '{"keep":"me"}', "removed": False}


def clustered_by(*columns):
    told = json.dumps({"clusteringColumns": [[each] for each in columns]})
    return {"domain": "delta.clustering", "configuration": told, "removed": False}


def made_by_others(lake, configuration=None, features=FEATURES, domains=(), schema=ORDERS):
    """Write version 0 as another engine does: it has committed tomorrow, by its clock."""
    info = {"inCommitTimestamp": TOMORROW_MS, "timestamp": 5, "operation": "CREATE TABLE"}
    metadata = {
        "id": "d6f4edea-1b43-4689-8b1d-ca42726b071e",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_json(schema),
        "partitionColumns": [],
        "configuration": TRACKED if configuration is None else configuration,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}
    if known := [each for each in features if each in OF_READERS]:
        protocol |= {"minReaderVersion": 3, "readerFeatures": known}
    add_entry(
        lake,
        0,
        {"commitInfo": info},
        {"protocol": protocol},
        {"metaData": metadata},
        *({"domainMetadata": each} for each in domains),
    )


def add_entry(lake, version, *actions):
    folder = lake.location / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(each) for each in actions)
    (folder / f"{version:020d}.json").write_text(text)


def actions_of(lake, version):
    text = (lake.location / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(each) for each in text.splitlines()]


def ids_given(lake, version):
    """Return where row ids of a version's files begin, and the mark after it."""
    found = actions_of(lake, version)
    adds = [each["add"] for each in found if "add" in each]
    domains = [each["domainMetadata"] for each in found if "domainMetadata" in each]
    assert {version} == {each["defaultRowCommitVersion"] for each in adds}
    [mark] = [json.loads(each["configuration"])["rowIdHighWaterMark"] for each in domains]
    return [each["baseRowId"] for each in adds], mark


@pytest.mark.parametrize("warm", [True, False])
def test_a_row_id_is_given_once_though_the_race_for_the_version_was_lost(tmp_path, warm):
    lake = Lake(tmp_path, warm=warm)
    made_by_others(lake)
    lake.land({0: (0, 3)}, **BEGINS)
    late = lake.state()
    commit = lake.prepare(late, {0: (3, 5)})
    moved = json.dumps({"rowIdHighWaterMark": 7})
    mark = {"domain": "delta.rowTracking", "configuration": moved, "removed": False}
    add_entry(
        lake, 2, {"commitInfo": {"inCommitTimestamp": TOMORROW_MS + 9}}, {"domainMetadata": mark}
    )
    with pytest.raises(ConflictError):
        lake.table.commit(late, commit, retain=25)
    lake.table.commit(lake.state(), commit, retain=25)

    assert ([0], 2) == ids_given(lake, 1)
    assert ([8], 9) == ids_given(lake, 3)


def test_a_version_is_later_than_the_one_before_whatever_clocks_say(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake)
    for number in range(2):
        lake.land({0: (number, number + 1)}, **({} if number else BEGINS))
    lake.table.upkeep(lake.state()).raise_era()
    first = [actions_of(lake, version)[0]["commitInfo"] for version in range(4)]

    assert [TOMORROW_MS + n for n in range(4)] == [each["inCommitTimestamp"] for each in first]
    history = lake.table.history(CHAIN).commits
    assert [TOMORROW_MS + 1, TOMORROW_MS + 2] == [each.timestamp_ms for each in history]


def test_domains_ids_and_times_outlive_checkpoints_and_clean_up(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake, domains=[OF_OTHERS, clustered_by("name")])
    lake.land({0: (0, 3)}, **BEGINS)
    lake.clean_up_log()
    assert "00000000000000000000.json" not in lake.log()
    lake = Lake(tmp_path)
    lake.land({0: (3, 5)})
    lake.clean_up_log()
    view = lake.state().handle.view

    assert ([3], 4) == ids_given(lake, 2)
    assert OF_OTHERS["configuration"] == view.domains["com.example"]
    assert ("name",) == view.form.target.indexed.clustering
    live = lake.table._live.adds(view).values()
    assert [(0, 1), (3, 2)] == sorted(
        (each["baseRowId"], each["defaultRowCommitVersion"]) for each in live
    )
    assert [0, 1, 2, 3, 4] == lake.ids()


def test_clustering_columns_have_statistics_wherever_they_are(tmp_path):
    lake = Lake(tmp_path, warm=True)
    few = {**TRACKED, "delta.dataSkippingNumIndexedCols": "1"}
    made_by_others(lake, few, domains=[clustered_by("name")])
    lake.land({0: (0, 1)}, **BEGINS)
    add_entry(
        lake,
        2,
        {"commitInfo": {"inCommitTimestamp": TOMORROW_MS + 9}},
        {"domainMetadata": clustered_by("id")},
    )
    lake.land({0: (1, 2)})
    stated = [
        json.loads(each["add"]["stats"])["nullCount"].keys()
        for version in (1, 3)
        for each in actions_of(lake, version)
        if "add" in each
    ]

    assert [{"id", "name"}, {"id"}] == stated
    assert () == values_of(lake.catalog, lake.name).mismatches


def test_files_that_others_clustered_are_left_to_them(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake, {}, features=("domainMetadata", "clustering"))
    for number in range(3):
        lake.land({0: (number, number + 1)}, **({} if number else BEGINS))
    [add] = [each["add"] for each in actions_of(lake, 3) if "add" in each]
    add_entry(
        lake,
        4,
        {"remove": {"path": add["path"], "dataChange": False, "deletionTimestamp": 1}},
        {
            "add": {
                **add,
                "path": f"z{add['path']}",
                "clusteringProvider": "liquid",
                "dataChange": False,
            }
        },
    )
    (lake.location / add["path"]).rename(lake.location / f"z{add['path']}")
    [group] = groups_of(lake.table.layout(lake.state()))

    assert 2 == len(group.files)
    assert 3 == len(lake.table.layout(lake.state()).files)


def test_rows_with_ids_are_neither_replaced_nor_written_again(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake)
    lake.land({0: (0, 1)}, **BEGINS)
    state = lake.state()
    with pytest.raises(InvalidError, match="row tracking") as refused:
        lake.table.require_row_deletes(state)
    with pytest.raises(InvalidError, match="row tracking") as left_alone:
        lake.table.require_rearrangeable(state)

    assert ("P436", "P845") == (refused.value.code, left_alone.value.code)


def test_while_row_tracking_is_suspended_no_ids_are_given(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake, {"delta.rowTrackingSuspended": "true"})
    lake.land({0: (0, 1)}, **BEGINS)

    assert not any("domainMetadata" in each for each in actions_of(lake, 1))
    assert ["baseRowId" in each["add"] for each in actions_of(lake, 1) if "add" in each] == [False]


def test_a_column_is_widened_where_the_table_allows_it_and_read_without_deltalake(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake, {"delta.enableTypeWidening": "true"}, features=[WIDENING])
    lake.land({0: (0, 2)}, **BEGINS)
    state = lake.state()
    staged = lake.prepare(state, {0: (2, 4)})
    fields = [
        replace(each, type=Kind.LONG) if each.type is Kind.INT else each for each in ORDERS.fields
    ]
    lake.table.evolve(state, Struct(tuple(fields)))
    with pytest.raises(InvalidError) as late:
        lake.table.commit(lake.state(), staged, retain=25)
    lake.land({0: (2, 4)})
    with pytest.raises(DeltaError, match="TypeWidening"):
        lake.ids()

    assert (True, "P439") == (state.can_widen, late.value.code)
    [column] = [each for each in lake.handle.schema().fields if each.name == "_kafka_partition"]
    assert {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]} == column.metadata
    found = lake.table.row_coordinates(COLUMNS)
    assert ([0, 1, 2, 3], [0] * 4) == (
        found["offset"].to_pylist(),
        found["partition"].to_pylist(),
    )
    asked = lake.table.row_coordinates(COLUMNS, lake.state(), pa.array([3]))
    assert 1 == asked.num_rows
    assert () == values_of(lake.catalog, lake.name).mismatches


GROWN = {
    "n": (Kind.INT, Kind.LONG, 7, 7),
    "x": (Kind.FLOAT, Kind.DOUBLE, 0.5, 0.5),
    "whole": (Kind.INT, Kind.DOUBLE, 7, 7.0),
    "exact": (Kind.INT, Digits(14, 2), 7, Decimal("7.00")),
    "digits": (Digits(6, 2), Digits(12, 4), Decimal("0.07"), Decimal("0.0700")),
    "day": (Kind.DATE, Kind.TIMESTAMP, date(2026, 11, 7), datetime(2026, 11, 7)),  # noqa: DTZ001
    "list": (List(Kind.INT), List(Kind.LONG), [7, None], [7, None]),
    "map": (Map(Kind.STRING, Kind.INT), Map(Kind.STRING, Kind.LONG), {"k": 7}, [("k", 7)]),
    "place": (
        Struct((Field("a", Kind.INT),)),
        Struct((Field("a", Kind.LONG),)),
        {"a": 7},
        {"a": 7},
    ),
}
"""Columns by name: the type that they had and the one that they got, a value as it was, and is."""


def test_files_of_former_types_are_read_and_audited_as_what_their_columns_are_now(tmp_path):
    lake = Lake(tmp_path)
    former, present = (
        Struct(tuple(Field(name, each[at]) for name, each in GROWN.items())) for at in (0, 1)
    )
    on = {"delta.enableTypeWidening": "true"}
    made_by_others(lake, on, features=[WIDENING, "timestampNtz"], schema=former)
    state = lake.state()
    files = lake.write(state, [{name: each[2] for name, each in GROWN.items()}])
    lake.land({0: (0, 1)}, files=files, **BEGINS)
    lake.table.evolve(lake.state(), present)
    state = lake.state()
    [file] = lake.table.live_files(state)
    [batch] = lake.table.read_live(state, file, present.names)

    assert [{name: each[3] for name, each in GROWN.items()}] == (
        batch.select(present.names).to_pylist()
    )
    assert GROWN["day"][3] == file.bounds["day"][0]
    assert () == values_of(lake.catalog, lake.name).mismatches


@pytest.mark.parametrize(
    "key",
    ["delta.enableRowTracking", "delta.enableInCommitTimestamps", "delta.feature.clustering"],
)
def test_a_table_with_such_a_feature_is_made_with_spark(tmp_path, key):
    with pytest.raises(InvalidError, match=key) as raised:
        Lake(tmp_path).create(properties={key: "true"})

    assert "P436" == raised.value.code
    assert "Spark" in raised.value.hint
