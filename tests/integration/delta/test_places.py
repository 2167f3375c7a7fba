"""Roots, directories and names: what may become a table, and what is refused with a reason."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType, StructType
from tests.integration.delta.lake import CHAIN, COLUMNS, NAME, ORDERS, Lake

from penstock.core.demands import Length
from penstock.core.errors import ConflictError, InvalidError, UnavailableError
from penstock.core.schema import Field as Column
from penstock.core.schema import Kind, Struct
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.prepared import orders, positions, prepared


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def refused(code, act, *args):
    with pytest.raises(InvalidError) as caught:
        act(*args)
    assert code == caught.value.code
    return caught.value.message


@pytest.mark.parametrize(
    "name",
    ["_delta_log.x", "a.b/c", "a..b", "../x.y", "a.b c", "a.é", ".a", "a." + "x" * 129, "a" * 9000],
)
def test_hostile_names_reach_no_path(lake, name):
    refused("P404", lake.catalog.load, name)
    refused("P404", lake.catalog.create, name, TableDefinition(ORDERS), [])
    assert not lake.root.exists()


def test_a_directory_that_is_no_table_is_left_alone(lake):
    lake.location.mkdir(parents=True)
    (lake.location / "notes.txt").write_text("mine")
    message = refused("P437", lake.catalog.load, NAME)
    refused("P437", lake.create)

    assert "notes.txt" in message
    assert ["notes.txt"] == [path.name for path in lake.location.iterdir()]


def test_a_file_in_the_place_of_a_table_is_left_alone(lake):
    lake.location.parent.mkdir(parents=True)
    lake.location.write_text("mine")
    refused("P437", lake.create)

    assert "mine" == lake.location.read_text()


def test_an_empty_directory_and_an_empty_log_are_no_obstacle(lake):
    (lake.location / "_delta_log").mkdir(parents=True)
    assert lake.table is None

    lake.create()
    assert Verdict.AGREED == lake.state().verdict


def test_a_table_inside_a_table_is_refused(lake):
    lake.create()
    message = refused("P437", lake.catalog.create, f"{NAME}.inner", TableDefinition(ORDERS), [])

    assert message == "the table bronze.orders.inner would lie inside the table bronze.orders"


def test_an_unwritable_root_fails_the_check_and_creation(tmp_path):
    (tmp_path / "lake").write_text("a file is where the root should be")
    lake = Lake(tmp_path)

    refused("P431", lake.catalog.check)
    refused("P431", lake.create)


def test_a_check_leaves_no_files(lake):
    lake.catalog.check()

    assert [] == list(lake.root.iterdir())


@pytest.mark.parametrize(
    ("key", "value"),
    [("root", ""), ("root", "lake"), ("root", "/a/../b"), ("root", "s3://"), ("rooot", "/x"),
     ("storage_options", "x"), ("penstock.open_writers", "many"), ("penstock.row_group_bytes", 0)],
)  # fmt: skip
def test_unusable_settings_are_refused(tmp_path, key, value):
    refused("P432", lambda: Lake(tmp_path, **{key: value}))


@pytest.mark.parametrize(
    "root", ["/lakes/50%25", "file:///lakes/50%25", "s3://lakes/a%2Fb", "/%C3%B6"]
)
def test_a_root_that_deltalake_reads_as_another_path_is_refused(tmp_path, root):
    assert "deltalake reads below" in refused("P432", lambda: Lake(tmp_path, root=root))


@pytest.mark.parametrize("folder", ["50% off", "50%", "ö%zz", "a b#?&+"])
def test_a_root_with_signs_of_uris_in_it_is_taken_as_it_is(tmp_path, folder):
    lake = Lake(tmp_path / folder)
    lake.create()
    lake.land({0: (0, 3)})

    assert [0, 1, 2] == lake.ids()
    assert [folder] == [each.name for each in tmp_path.iterdir()]


def test_options_are_in_no_representation_and_of_secrets_the_references_travel(
    tmp_path, monkeypatch
):
    options = {"AWS_SECRET_ACCESS_KEY": "${env:LAKE_SECRET}", "AWS_REGION": "eu-1", "token": "hush"}
    lake = Lake(tmp_path, storage_options=options)
    lake.create()

    assert "hush" not in repr(lake.catalog) + repr(lake.table) + repr(lake.state())
    assert "hush" not in lake.state().target
    assert (
        '"storage":{"region":"eu-1","secret_access_key":"${env:LAKE_SECRET}"}'
        in lake.state().target
    )


def test_a_table_dropped_and_made_again_takes_no_old_commit_even_at_the_same_version(lake):
    lake.create()
    lake.land({0: (0, 2)})
    state = lake.state()
    commit = lake.prepare(state, {0: (2, 4)})
    shutil.rmtree(lake.location)
    lake.create()
    lake.land({0: (0, 1)})
    with pytest.raises(ConflictError):
        lake.table.commit(state, commit, retain=25)

    assert ["0", "1"] == [name[19] for name in lake.log()]


def test_a_foreign_table_without_progress_is_accepted_and_gets_its_ledger(lake):
    row = dict.fromkeys(ORDERS.names) | {"id": -7, "name": "before"}
    types = {Kind.LONG: pa.int64(), Kind.INT: pa.int32(), Kind.STRING: pa.string()}
    schema = pa.schema([(field.name, types[field.type]) for field in ORDERS.fields])
    write_deltalake(lake.location, pa.Table.from_pylist([row], schema=schema))
    state = lake.state()
    assert (Verdict.ABSENT, None, ORDERS) == (state.verdict, state.landed, state.schema)

    first = prepared(CHAIN, {}, uuid=state.uuid, origins={0: 5}, nonce="start")
    lake.table.commit(state, first, retain=25)
    lake.land({0: (5, 7)})

    assert positions({0: 7}) == lake.state().landed.offsets
    assert [-7, 5, 6] == lake.ids()
    assert 1 == lake.table.history(CHAIN).foreign_commits


def features(lake, configuration=None, schema=None, act=None):
    schema = schema or Schema([Field("id", PrimitiveType("long"))])
    handle = DeltaTable.create(lake.location, schema, configuration=configuration)
    if act:
        act(handle)
    return lake


@pytest.mark.parametrize(
    ("given", "feature", "why"),
    [
        ({"act": lambda h: h.alter.add_constraint({"ok": "abs(id) > 0"})},
            "the check constraint ok, abs(id) > 0", "ABS(long) is not supported"),
        ({"schema": Schema([Field("id", PrimitiveType("long"),
            metadata={"delta.generationExpression": "1"})])},
            "the generated column id, 1", "the expression is a int"),
        ({"schema": Schema([Field("id", PrimitiveType("long"),
            metadata={"delta.invariants": '{"expression": {}}'})])},
            'the column invariant of id, {"expression": {}}', "it names no expression"),
        ({"schema": Schema([Field("id", PrimitiveType("long"),
            metadata={"delta.invariants": '{"expression": {"expression": "id"}}'})])},
            "the column invariant of id, id", "it is no condition"),
        ({"schema": Schema([Field("id", PrimitiveType("long"),
            metadata={"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(3)>"})])},
            "the length of id, array<varchar(3)>", "it is within another type"),
    ],
)  # fmt: skip
def test_features_that_cannot_be_honoured_are_refused_by_name(lake, given, feature, why):
    message = refused("P436", features(lake, **given).state)

    assert f"{NAME} has {feature}, which Penstock does not support: {why}" == message


def test_a_constraint_changes_what_rows_are_written_by(lake):
    metadata = {"delta.invariants": '{"expression": {"expression": "place.zip > 3"}}'}
    place = StructType([Field("zip", PrimitiveType("long"), metadata=metadata)])
    limits = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    fields = [Field("name", PrimitiveType("string"), metadata=limits), Field("place", place)]
    features(lake, schema=Schema(fields))
    before = lake.state()
    DeltaTable(lake.location).alter.add_constraint({"ok": "name > 'a'"})
    after = lake.state()

    assert ["column invariant of place.zip"] == [e.name for e in before.demands.constraints]
    assert (Length("name", 3),) == before.demands.lengths == after.demands.lengths
    assert "check constraint ok" == after.demands.constraints[0].name
    assert before.schema == after.schema
    assert before.schema_id != after.schema_id  # rows that were written before are written again


@pytest.mark.parametrize("name", ["IdentityColumns", "IcebergCompatV1"])
def test_table_features_that_cannot_be_honoured_are_refused_by_name(lake, name):
    from deltalake import TableFeatures

    def add(handle):
        handle.alter.add_feature(
            getattr(TableFeatures, name), allow_protocol_versions_increase=True
        )

    message = refused("P436", features(lake, act=add).state)
    assert f"the table feature {name[0].lower()}{name[1:]}" in message


@pytest.mark.parametrize("kind", ["short", "byte"])
def test_column_types_that_cannot_be_written_are_refused_by_name(lake, kind):
    schema = Schema([Field("id", PrimitiveType("long")), Field("n", PrimitiveType(kind))])
    message = refused("P435", features(lake, schema=schema).state)

    assert f"the column n of {NAME} has the type {kind}" in message


@pytest.mark.parametrize(
    "key",
    ["delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableDeletionVectors"],
)
def test_features_that_appending_honours_are_accepted(lake, key):
    lake.create(properties={key: "true"})
    lake.land({0: (0, 3)})

    assert [0, 1, 2] == lake.ids()


def test_deletion_vectors_of_others_and_their_rows_are_left_as_they_are(lake):
    lake.create(properties={"delta.enableDeletionVectors": "true"})
    lake.land({0: (0, 3)})
    lake.handle.delete("id = 1")
    lake.land({0: (3, 5)})

    assert [0, 2, 3, 4] == lake.ids()
    assert (
        4
        == lake.table.row_coordinates(
            {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
        ).num_rows
    )


@pytest.mark.parametrize("kind", [Kind.UUID, Kind.TIME, Kind.UNKNOWN])
def test_types_that_delta_lacks_are_refused_at_creation_with_another(lake, kind):
    schema = Struct((Column("id", Kind.LONG), Column("odd", kind)))
    with pytest.raises(InvalidError) as caught:
        lake.create(schema=schema)

    assert "P435" == caught.value.code
    assert f"the column odd has the type {kind}, which Delta cannot hold" == caught.value.message
    assert "schema.hints" in caught.value.hint


def test_columns_that_delta_cannot_distinguish_are_refused_at_creation(lake):
    for names in (("id", "ID"), ("id", "a b"), ("id", "")):
        schema = Struct(tuple(Column(name, Kind.LONG) for name in names))
        refused("P435", lambda schema=schema: lake.create(schema=schema))
    assert lake.table is None


@pytest.mark.parametrize(
    ("by", "why"),
    [
        (["day(ts)"], "Delta partitions by plain columns, not by transforms"),
        (["nope"], "there is no such column"),
        (["id", "id"], "a column appears twice"),
        (list(ORDERS.names), "one column at least must be left"),
    ],
)
def test_partitioning_that_delta_lacks_is_refused_with_the_alternative(lake, by, why):
    with pytest.raises(InvalidError) as caught:
        lake.create(partition_by=by)

    assert "P434" == caught.value.code
    assert caught.value.message.endswith(why)
    assert caught.value.hint


def test_properties_that_delta_does_not_know_are_refused_by_name(lake):
    message = refused(
        "P436", lambda: lake.create(properties={"write.parquet.compression-codec": "zstd"})
    )

    assert "write.parquet.compression-codec" in message


@pytest.mark.parametrize(
    "key",
    ["delta.enableRowTracking", "delta.enableInCommitTimestamps", "delta.constraints.ok"],
)
def test_no_table_is_created_that_we_could_not_land_in(lake, key):
    refused("P436", lambda: lake.create(properties={key: "true"}))

    assert lake.table is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"schema": Struct((Column("at", Kind.TIMESTAMP), *ORDERS.fields))}, "without zone"),
        ({"more": {"delta.enableDeletionVectors": "true"}}, "delta.enableDeletionVectors"),
    ],
)
def test_a_mapping_that_deltalake_would_forget_is_refused(lake, given, named):
    properties = {"delta.columnMapping.mode": "name", **given.pop("more", {})}

    assert named in refused("P436", lambda: lake.create(properties=properties, **given))
    assert lake.table is None


def test_what_spark_would_not_open_is_not_created(lake):
    required = Struct((Column("at", Kind.TIMESTAMP), Column("id", Kind.LONG, required=True)))

    assert "required columns" in refused("P436", lambda: lake.create(schema=required))
    assert lake.table is None


def test_a_mapping_without_its_table_feature_is_refused(lake):
    forgotten = Schema([Field("at", PrimitiveType("timestamp_ntz"))])
    mapped = features(lake, {"delta.columnMapping.mode": "name"}, forgotten)

    assert "without the table feature columnMapping" in refused("P436", mapped.state)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_may_have_any_name_and_the_table_grows(lake, mode):
    odd = Struct((*ORDERS.fields, Column("a b,c", Kind.LONG), Column("名.前", Kind.STRING)))
    lake.create(schema=odd, properties={"delta.columnMapping.mode": mode}, partition_by=["名.前"])
    rows = [{**row, "a b,c": 1, "名.前": "x"} for row in orders({0: (0, 2)})]
    lake.land({0: (0, 2)}, files=lake.write(lake.state(), rows))
    state = lake.state()
    staged = lake.prepare(state, {0: (2, 3)}, files=lake.write(state, orders({0: (2, 3)})))
    wide = Struct((*odd.fields, Column("new one", Struct((Column("x y", Kind.LONG),)))))
    lake.table.evolve(state, wide)
    lake.table.commit(lake.state(), staged, retain=25)
    grown = {**rows[0], "id": 3, "_kafka_offset": 3, "new one": {"x y": 7}}
    lake.land({0: (3, 4)}, files=lake.write(lake.state(), [grown]))

    read = sorted(pa.table(lake.handle.scan()).to_pylist(), key=lambda row: row["id"])
    assert wide == lake.state().schema
    assert [(1, "x"), (1, "x"), (None, None), (1, "x")] == [
        (row["a b,c"], row["名.前"]) for row in read
    ]
    assert [None, None, None, {"x y": 7}] == [row["new one"] for row in read]
    assert 4 == lake.table.row_coordinates(COLUMNS).num_rows


def test_a_missing_table_is_unavailable(lake):
    lake.create()
    table = lake.table
    shutil.rmtree(lake.location)
    with pytest.raises(UnavailableError) as caught:
        table.state(CHAIN)

    assert "P402" == caught.value.code


def test_a_panic_of_the_library_is_an_error_with_a_code(lake):
    schema = Struct((Column("id", Kind.LONG), Column("at", Kind.TIMESTAMP)))
    v2 = {"delta.checkpointPolicy": "v2"}
    refused("P436", lambda: lake.create(schema=schema, properties=v2))

    assert lake.table is None
