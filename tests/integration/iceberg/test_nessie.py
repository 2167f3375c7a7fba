"""Why Nessie is refused: what its 0.99.0 does, asked by PyIceberg and by `penstock doctor`.

A release that does otherwise turns this red: then look again at design/0380.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from tests.servers import nessie
from tests.servers.s3 import KEY, SECRET, S3Server

from penstock.app.assembly.process import SystemClock
from penstock.commit.catalog_probe import probe
from penstock.connectors.iceberg import catalog as opening
from penstock.core.errors import InvalidError
from penstock.observe.fanout import Observers
from penstock.spec.secrets import ProcessSecrets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # its runner has 245 MB

SECRETS = ProcessSecrets({"KEY": KEY, "SECRET": SECRET})


@pytest.fixture(scope="module")
def address(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nessie.running(tmp_path_factory.mktemp("nessie"), s3, s3.bucket()) as found:
        yield found


@pytest.fixture
def engine(address: str) -> Iterator[Catalog]:
    """Any other engine."""
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    catalog = load_catalog("lake", type="rest", uri=address, **keys)
    catalog.create_namespace_if_not_exists("bronze")
    yield catalog
    catalog.close()


def settings_of(address: str) -> dict[str, str]:
    keys = {"s3.access-key-id": "${env:KEY}", "s3.secret-access-key": "${env:SECRET}"}
    return {"name": "lake", "type": "rest", "uri": address, **keys}


def test_it_is_refused_as_it_is_opened(address: str) -> None:
    with pytest.raises(InvalidError) as caught:
        opening.open_iceberg(settings_of(address), SECRETS, Observers())
    assert "P214" == caught.value.code


def test_it_lets_a_first_commit_replace_the_rows_of_others(engine: Catalog) -> None:
    table = engine.create_table("bronze.orders", pa.schema([("id", pa.int64())]))
    stale = engine.load_table("bronze.orders")
    for number in (1, 2, 3):
        table.append(pa.table({"id": [number]}))

    stale.append(pa.table({"id": [4]}))

    left = engine.load_table("bronze.orders")
    assert [4] == left.scan().to_arrow()["id"].to_pylist()
    assert 1 == len(left.snapshots())
    engine.drop_table("bronze.orders")


def test_the_doctor_finds_it_without_its_name(
    address: str, engine: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "require_comparing", lambda _name, _properties: None)
    catalog = opening.open_iceberg(settings_of(address), SECRETS, Observers())
    with pytest.raises(InvalidError) as caught:
        probe(catalog, "bronze", "0123456789ab", SystemClock())
    assert "P443" == caught.value.code
    assert [] == engine.list_tables("bronze")
    catalog.close()
