"""Places in object stores: their paths, addresses and accounts."""

from __future__ import annotations

import pytest

from penstock.connectors.delta.locations import StorageRoot, place_of, root_of
from penstock.core.errors import InvalidError
from penstock.files.filesystems import CREDENTIALS, PUBLIC, normalised
from penstock.files.storage_settings import account_of, address_of, path_in

BY_HOST = "abfss://lake@shop.dfs.core.windows.net/a/b"


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/data/a", "/data/a"),
        ("s3://lake/a/b", "lake/a/b"),
        ("az://lake/a/b", "lake/a/b"),
        (BY_HOST, "lake/a/b"),
    ],
)
def test_a_path_is_that_of_the_filesystem_and_leads_back(place: str, path: str) -> None:
    assert path == path_in(place)
    assert place == address_of(path, place)


def test_an_account_is_in_the_address_or_in_the_settings() -> None:
    assert "shop" == account_of(BY_HOST, {"account_name": "other"})
    assert "other" == account_of("az://lake/a", {"account_name": "other"})
    with pytest.raises(InvalidError, match="of no account") as found:
        root_of("delta", "az://lake/a", {})
    assert "P432" == found.value.code


def test_names_of_keys_are_known_with_every_prefix_and_are_secrets() -> None:
    written = {"AZURE_STORAGE_ACCOUNT_KEY": "x", "azure_client_secret": "y", "sas_token": "z"}

    assert {"account_key", "client_secret", "sas_token"} == normalised(written).keys()
    assert CREDENTIALS >= normalised(written).keys()
    assert not PUBLIC & CREDENTIALS
    with pytest.raises(InvalidError) as found:
        root_of("delta", BY_HOST, written, written)
    assert "P441" == found.value.code


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("part-1.parquet", "lake/a/b/n/t/part-1.parquet"),
        ("az://lake/x%20y", "lake/x y"),
        ("abfss://lake@shop.dfs.core.windows.net/x", "lake/x"),
        ("abfss://lake@other.dfs.core.windows.net/x", None),
        ("s3://lake/x", None),
        ("/x", None),
    ],
)
def test_a_file_of_another_account_or_storage_is_refused(path: str, found: str | None) -> None:
    root = StorageRoot(BY_HOST)

    if found is not None:
        assert found == place_of(root, "n.t", path)
        return
    with pytest.raises(InvalidError, match="files in another storage"):
        place_of(root, "n.t", path)
