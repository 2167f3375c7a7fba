"""What the features of a table ask of each entry, where versions race and the log is cleaned up."""

import json
import time
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from tests.integration.delta.foreign_delete import foreign_delete
from tests.integration.delta.keyed import Keyed
from tests.integration.delta.lake import CHAIN, COLUMNS, NAME, ORDERS, Lake
from tests.integration.maintaining import maintained

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.delta import connector
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.schema.column_mapping import LARGEST_ID, MODE, mapped_anew
from penstock.connectors.delta.schema.features import WIDENING
from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.connectors.delta.schema.types import delta_json, mapped_json
from penstock.core.errors import ConflictError, InvalidError
from penstock.core.maintenance import groups_of
from penstock.core.schema import Decimal as Digits
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.ports.row_deletes import RowDeleteMode
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import orders

TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}
FEATURES = ("domainMetadata", "rowTracking", "inCommitTimestamp", "clustering")
TOMORROW_MS = (int(time.time()) + 86_400) * 1000
OF_READERS = {WIDENING, "timestampNtz", "deletionVectors", "columnMapping"}
BEGINS = {"origins": {0: 0}}
OF_OTHERS = {"domain": "com.example", "configuration": '{"keep":"me"}', "removed": False}


def clustered_by(*columns):
    told = json.dumps({"clusteringColumns": [[each] for each in columns]})
    return {"domain": "delta.clustering", "configuration": told, "removed": False}


def mapped(schema):
    """Return a schema's JSON with ids of columns, and names for files."""
    return json.dumps(mapped_anew(json.loads(mapped_json(schema)), 0)[0])


def made_by_others(lake, configuration=None, features=FEATURES, domains=(), schema=ORDERS):
    """Write version 0 as another engine does: it has committed tomorrow, by its clock."""
    info = {"inCommitTimestamp": TOMORROW_MS, "timestamp": 5, "operation": "CREATE TABLE"}
    metadata = {
        "id": "d6f4edea-1b43-4689-8b1d-ca42726b071e",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": mapped(schema) if MODE in (configuration or {}) else delta_json(schema),
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


WITH_VECTORS = {**TRACKED, "delta.enableDeletionVectors": "true"}
del WITH_VECTORS["delta.enableInCommitTimestamps"]  # the other writer of this test knows none


def row_ids(lake):
    """Return row id and version of the last change, by the rows' own ids."""
    state = lake.state()
    columns = ["id", *state.row_ids]
    batches = [
        each.select(columns)
        for file in lake.table.live_files(state)
        for each in lake.table.read_live(state, file, columns)
    ]
    found = {row["id"]: (row["_id"], row["_version"]) for b in batches for row in b.to_pylist()}
    assert sum(b.num_rows for b in batches) == len({each for each, _ in found.values()})
    return found


def preserved(lake):
    last = int(lake.log()[-1].removesuffix(".json"))
    return actions_of(lake, last)[0]["commitInfo"]["tags"]["delta.rowTracking.preserved"]


@pytest.mark.parametrize("mapping", [{}, {MODE: "id", LARGEST_ID: "5"}])
def test_rows_keep_their_ids_in_whatever_files_they_are(tmp_path, mapping):
    lake = Lake(tmp_path)
    features = (*FEATURES, "deletionVectors", *(["columnMapping"] if mapping else []))
    made_by_others(lake, {**WITH_VECTORS, **mapping}, features)
    for start in range(0, 9, 3):
        lake.land({0: (start, start + 3)}, **({} if start else BEGINS))
    landed = row_ids(lake)
    assert {each: (each, 1 + each // 3) for each in range(9)} == landed

    root = StorageRoot(str(lake.root))

    def meanwhile():
        assert foreign_delete(root, NAME, lambda row: 4 in row.values())

    done = maintained(CHAIN, lake.table, connector, meanwhile)
    del landed[4]
    assert (1, 3, 1, 1) == (done.groups, done.files_before, done.files_after, done.carried)
    assert ("true", landed) == (preserved(lake), row_ids(lake))

    lake.land({0: (9, 11)})
    grown = row_ids(lake)
    assert {**landed, 9: (18, 6), 10: (19, 6)} == grown, "above the ids that the copies did not use"
    assert 1 == maintained(CHAIN, lake.table, connector).groups
    assert ("true", grown) == (preserved(lake), row_ids(lake))
    assert sorted(grown) == lake.ids(), "who does not know row ids reads the same rows"
    assert () == values_of(lake.catalog, lake.name).mismatches


def test_a_row_that_takes_the_place_of_another_has_an_id_of_its_own(tmp_path):
    lake = Lake(tmp_path)
    made_by_others(lake, WITH_VECTORS, (*FEATURES, "deletionVectors"))
    keyed = Keyed(lake, CHAIN)
    keyed.change(orders({0: (0, 5)}))
    known = row_ids(lake)
    writer = partial(connector.open_writer, secrets=ProcessSecrets({}))
    for number, again in ((3, None), (1, writer)):
        keyed.change(orders({0: (number, number + 1)}), [number + 1], again=again)
        assert "false" == preserved(lake)
        found, newest = row_ids(lake), max(known.values())
        stay = known.keys() - {number, number + 1}
        assert {each: known[each] for each in stay} == {each: found[each] for each in stay}
        assert found[number] > newest
        known = found

    assert [0, 1, 3] == sorted(known)
    lake.table.require_row_deletes(lake.state(), RowDeleteMode.REWRITE)
    assert 1 == maintained(CHAIN, lake.table, connector).groups
    assert ("true", known) == (preserved(lake), row_ids(lake))


def test_rows_that_are_given_ids_for_good_while_they_are_rearranged_keep_them(tmp_path):
    lake = Lake(tmp_path)
    supported = {each: TRACKED[each] for each in TRACKED if each != "delta.enableRowTracking"}
    made_by_others(lake, supported)
    for start in range(2):
        lake.land({0: (start, start + 1)}, **({} if start else BEGINS))
    assert () == lake.state().row_ids

    def enabled():
        [metadata] = [each for each in actions_of(lake, 0) if "metaData" in each]
        metadata["metaData"]["configuration"] = TRACKED
        add_entry(lake, 3, {"commitInfo": {"inCommitTimestamp": TOMORROW_MS + 9}}, metadata)

    done = maintained(CHAIN, lake.table, connector, enabled)
    assert (1, 1) == (done.groups, done.given_up), "what was written has no ids: written again"
    assert {0: (0, 1), 1: (1, 2)} == row_ids(lake)


@pytest.mark.parametrize("lacking", ["named", "its own"])
def test_row_tracking_without_columns_of_its_own_is_refused(tmp_path, lacking):
    lake = Lake(tmp_path)
    named = "delta.rowTracking.materializedRowIdColumnName"
    given = {each: TRACKED[each] for each in TRACKED if each != named}
    made_by_others(lake, given if lacking == "named" else {**given, named: "name"})
    with pytest.raises(InvalidError, match="row tracking without columns of its own") as refused:
        lake.state()

    assert "P436" == refused.value.code
    assert ("_id", "_version") == reserved(TRACKED)


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
