"""A password in the address of a catalog, or keys of its storage, are not for ever."""

from pathlib import Path

import pytest
from tests.story.observer import RecordingObserver

from penstock.connectors.delta.locations import LazyOptions, StorageRoot
from penstock.connectors.iceberg import connector
from penstock.core.commits import Chain
from penstock.core.errors import UnavailableError
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets

CHAIN = Chain("shop", "lake.bronze.orders")


def test_a_catalog_and_its_tables_follow_a_secret(tmp_path: Path) -> None:
    name = tmp_path / "name"
    name.write_text("one")
    settings = {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/${{file:{name}}}.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    lake = connector.open_catalog(settings, ProcessSecrets(), RecordingObserver(""))
    table = lake.create("bronze.orders", TableDefinition(Struct((Field("n", Kind.LONG),))), ())
    uuid = table.state(CHAIN).uuid

    name.write_text("two")
    lake.check()
    assert lake.load("bronze.orders") is None
    with pytest.raises(UnavailableError):
        table.state(CHAIN)

    name.write_text("one")
    assert uuid == table.state(CHAIN).uuid
    lake.close()


def test_the_options_of_a_delta_catalog_follow_their_secrets(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("one")
    root = StorageRoot("s3://lake", LazyOptions({"secret": f"${{file:{key}}}"}, ProcessSecrets()))

    assert {"secret": "one"} == dict(root.options)
    key.write_text("two")
    assert {"secret": "two"} == dict(root.options)
    assert "two" not in repr(root)
    key.unlink()
    assert {"secret": "two"} == dict(root.options), "it may just be rewritten"
