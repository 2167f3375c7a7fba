"""Metadata of tables on S3: a request a file, read back all the same."""

import threading
from contextlib import suppress

import pytest
from tests.integration.s3.lake import DeltaGroundOnS3, IcebergGroundOnS3
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.connectors.iceberg.io import s3_file_io
from penstock.connectors.iceberg.io.s3_file_io import ObjectIO, WholeObject
from penstock.core.commits import Chain
from penstock.core.errors import UnavailableError
from penstock.files import objects
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import ORDERS, origin, part, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
UUID = "0a1b2c3d-0000-4000-8000-0123456789ab"


@pytest.fixture
def files(s3):
    properties = {
        "s3.endpoint": s3.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
    }
    return ObjectIO(properties), f"s3://{s3.bucket()}/t/metadata"


def test_a_file_is_written_and_read_whole(files):
    io, place = files
    output = io.new_output(f"{place}/m0.avro")
    with output.create() as stream:
        stream.write(b"abc")
        stream.write(b"def")
        position = stream.tell()

    assert isinstance(output, WholeObject)
    assert (6, 6, b"abcdef") == (
        position,
        len(output),
        io.new_input(f"{place}/m0.avro").open().read(),
    )
    assert 6 == len(io.new_input(f"{place}/m0.avro"))


def test_a_file_that_is_not_there_is_not_found(files):
    io, place = files
    with pytest.raises(FileNotFoundError):
        io.new_input(f"{place}/m1.avro").open()
    with pytest.raises(FileNotFoundError):
        len(io.new_input(f"{place}/m1.avro"))


def test_a_file_is_not_written_over_where_its_name_may_be_anothers(files):
    io, place = files
    for name in ("v1.metadata.json", f"00001-{UUID}.metadata.json"):
        with io.new_output(f"{place}/{name}").create() as stream:
            stream.write(b"{}")

    with pytest.raises(FileExistsError):
        io.new_output(f"{place}/v1.metadata.json").create()
    assert b"{}" == io.new_input(f"{place}/00001-{UUID}.metadata.json").open().read()


def test_table_metadata_leaves_a_manifest_list_its_room(files, s3, monkeypatch):
    monkeypatch.setattr(s3_file_io, "KEPT", s3_file_io.kept_files(bytes_max=200))
    io, place = files
    names = f"{place}/snap-1-{UUID}.avro", f"{place}/00001-{UUID}.metadata.json"
    for name in names:
        with io.new_output(name).create() as stream:
            stream.write(b"x" * 90)
    before = len(s3.requests())

    assert [b"x" * 90] * 2 == [io.new_input(name).open().read() for name in names]
    assert before == len(s3.requests())


def test_what_fails_while_it_is_written_is_not_there(files):
    io, place = files
    with suppress(ZeroDivisionError), io.new_output(f"{place}/m2.avro").create() as stream:
        stream.write(b"abc")
        stream.write(b"" * (1 // 0))

    assert not io.new_output(f"{place}/m2.avro").exists()


def test_data_files_go_the_librarys_own_way(files):
    io, place = files
    assert not isinstance(io.new_input(f"{place}/../data/a.parquet"), WholeObject)


def test_a_bucket_that_is_not_there_is_an_error_of_the_storage(files):
    io, _ = files
    stream = io.new_output("s3://nobodys/t/metadata/m0.avro").create()
    stream.write(b"abc")

    with pytest.raises(OSError, match="metadata/m0"):
        stream.close()


@pytest.mark.parametrize(("kind", "most"), [(IcebergGroundOnS3, 3), (DeltaGroundOnS3, 13)])
def test_a_commit_is_few_requests(tmp_path, s3, kind, most):
    catalog = kind(tmp_path, s3).open_catalog(Quiet())
    table = catalog.create("bronze.orders", TableDefinition(ORDERS), (origin(CHAIN, {0: 0}),))
    landed = [_landed(table, number) for number in range(2)]
    before = s3.requests()
    landed.append(_landed(table, 2))
    made = s3.requests()[len(before) :]
    catalog.close()

    assert [1, 2, 3] == [each.landed.offsets[part(0)] for each in landed]
    assert [] == made[most:], made


def test_what_a_commit_writes_on_s3_it_writes_side_by_side(tmp_path, s3, monkeypatch):
    """Each PUT waits for the other: one after another none would be answered."""
    catalog = IcebergGroundOnS3(tmp_path, s3).open_catalog(Quiet())
    table = catalog.create("bronze.orders", TableDefinition(ORDERS), (origin(CHAIN, {0: 0}),))
    state = table.state(CHAIN)
    together = threading.Barrier(2)
    put = objects.put

    def waits_for_the_other(*given):
        together.wait(timeout=30)
        put(*given)

    monkeypatch.setattr(objects, "put", waits_for_the_other)
    table.commit(state, prepared(CHAIN, {0: (0, 1)}, uuid=state.uuid), retain=25)

    assert 1 == table.state(CHAIN).landed.offsets[part(0)]
    catalog.close()


def test_a_delta_log_on_s3_is_examined_by_requests_side_by_side(tmp_path, s3, monkeypatch):
    """Each GET waits for the two others: the entry, the one after it, the newest checkpoint."""
    catalog = DeltaGroundOnS3(tmp_path, s3).open_catalog(Quiet())
    table = catalog.create("bronze.orders", TableDefinition(ORDERS), (origin(CHAIN, {0: 0}),))
    _landed(table, 0)
    together = threading.Barrier(3)
    fetch = objects.fetch

    def waits_for_the_others(*given):
        together.wait(timeout=30)
        return fetch(*given)

    monkeypatch.setattr(objects, "fetch", waits_for_the_others)

    assert 1 == table.state(CHAIN).landed.offsets[part(0)]
    catalog.close()


def test_what_is_made_is_written_whole_or_the_commit_is_not_sent(tmp_path, s3, monkeypatch):
    catalog = IcebergGroundOnS3(tmp_path, s3).open_catalog(Quiet())
    table = catalog.create("bronze.orders", TableDefinition(ORDERS), (origin(CHAIN, {0: 0}),))
    state = table.state(CHAIN)
    put = objects.put

    def loses_the_list(place, settings, key, *given):
        if "/snap-" in key:
            raise OSError("gone")
        put(place, settings, key, *given)

    monkeypatch.setattr(objects, "put", loses_the_list)
    with pytest.raises(UnavailableError):
        table.commit(state, prepared(CHAIN, {0: (0, 1)}, uuid=state.uuid), retain=25)

    assert state.head == table.state(CHAIN).head
    catalog.close()


def _landed(table, number):
    """Land a commit as the pipeline does: examined, committed, read back."""
    state = table.state(CHAIN)
    commit = prepared(CHAIN, {0: (number, number + 1)}, uuid=state.uuid)
    table.commit(state, commit, retain=25)
    return table.state(CHAIN)
