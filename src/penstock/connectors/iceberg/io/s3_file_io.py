"""Metadata of tables on S3, each file in one request, where PyIceberg's own way makes up to five.

A commit reads and writes half a dozen small files one after another, so it costs as many answers of
the store as it makes requests: `python -m benchmarks far` (docs/design/0013-one-request-a-file.md).

Invariants:
- data files, other storages, and settings that are not known here go PyIceberg's own way;
- a file exists whole or not at all; whether one exists already is asked only where the name
  bears no random UUID, by which nobody else's file can have it;
- what is kept of a metadata file was read from the store or acknowledged by it, under a name that
  is used once (kept_files.py).
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from pyiceberg.io import InputStream, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.typedef import EMPTY_DICT, Properties

from penstock.connectors.iceberg.io.arrow_file_io import ArrowIO
from penstock.connectors.iceberg.io.kept_files import BYTES_MAX, KeptFiles, is_named_once
from penstock.files import objects
from penstock.files.storage_settings import S3, S3_SETTINGS, Settings

IMPLEMENTATION = f"{__name__}.ObjectIO"

_NAMES = {
    **{each.iceberg: each.delta for each in S3_SETTINGS},
    **{each.iceberg.replace("s3.", "client."): each.delta for each in S3_SETTINGS if each.key},
    "client.region": "region",
    "s3.force-virtual-addressing": "virtual_hosted_style_request",
}
_METADATA = re.compile(r"/metadata/[^/]+\.(?:json|avro)$")


def kept_files(bytes_max: int = BYTES_MAX) -> Mapping[str, KeptFiles]:
    """Return room for table metadata, and for manifests and their lists, by the ends of names.

    Table metadata names all snapshots, and each commit makes one: among those of many tables no
    list would be kept until its table's next commit.
    """
    return {end: KeptFiles(bytes_max // 2) for end in ("json", "avro")}


KEPT = kept_files()
"""Of this process: what one of its catalogs wrote, all of them know."""


class ObjectIO(ArrowIO):
    """Implements `pyiceberg.io.FileIO`; see the module."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._settings = settings_of(properties, os.environ)

    def new_input(self, location: str) -> PyArrowFile:
        """Return a file to read."""
        found = self._whole(location)
        return super().new_input(location) if found is None else found

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to write."""
        found = self._whole(location)
        return super().new_output(location) if found is None else found

    def _whole(self, location: str) -> WholeObject | None:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if self._settings is None or scheme != "s3" or not _METADATA.search(path):
            return None
        filesystem = partial(self.fs_by_scheme, scheme, netloc)
        return WholeObject(location, path, filesystem, self._settings)


class WholeObject(PyArrowFile):
    """One metadata file. Raises OSError as PyIceberg's own files do.

    PyArrow's `filesystem` is opened only where something is asked that takes it.
    """

    def __init__(
        self, location: str, path: str, filesystem: Callable[[], Any], settings: Settings
    ) -> None:
        super().__init__(location, path, filesystem)
        self._settings = settings
        self._length: int | None = None

    @property
    def _filesystem(self) -> Any:
        return self._opening()

    @_filesystem.setter
    def _filesystem(self, opening: Callable[[], Any]) -> None:
        self._opening = opening

    def __len__(self) -> int:
        if self._length is None:
            self._length = super().__len__()
        return self._length

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's
        """Read all of it."""
        del seekable
        body = self._kept.get(self._storage, self.location)
        if body is None:
            bucket, key = _place(self.location)
            body = objects.fetch(bucket, self._settings, key)
            self._kept.keep(self._storage, self.location, body)
        self._length = len(body)
        return io.BytesIO(body)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - as above
        """Return a stream that puts all of it when it is closed. Raises FileExistsError."""
        if not (overwrite or is_named_once(self.location)) and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return _Upload(self)

    def put(self, body: bytes) -> None:
        """Write all of it."""
        bucket, key = _place(self.location)
        objects.put(bucket, self._settings, key, body, "overwrite")
        self._length = len(body)
        self._kept.keep(self._storage, self.location, body)

    @property
    def _kept(self) -> KeptFiles:
        return KEPT[self.location.rpartition(".")[2]]

    @property
    def _storage(self) -> str:
        return dict(self._settings).get("endpoint_url", "")


class _Upload:
    """Implements `pyiceberg.io.OutputStream`: puts what was written when it is closed.

    Nothing is put when the block it is open for fails.
    """

    def __init__(self, file: WholeObject) -> None:
        self._file = file
        self._body: bytearray | None = bytearray()

    def write(self, b: bytes) -> int:
        if self._body is None:
            raise ValueError("the stream is closed")
        self._body += b
        return len(b)

    def tell(self) -> int:
        return len(self._body or b"")

    def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            self._file.put(bytes(body))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._body = None
        self.close()


def settings_of(properties: Mapping[str, Any], environment: Mapping[str, str]) -> Settings | None:
    """Translate PyIceberg's settings of S3 to deltalake's; None when they are not all known here.

    Without keys, both read the environment and ask the machine; PyArrow alone reads the files
    of the AWS command line, and finds a bucket's region by itself.
    """
    given = {
        key: str(value)
        for key, value in properties.items()
        if key.startswith(("s3.", "client.")) and value is not None
    }
    endpoint = given.get("s3.endpoint", "https://")
    if any(key not in _NAMES for key in given) or "://" not in endpoint:
        return None
    settings = {_NAMES[key]: given[key] for key in sorted(given)}
    if "region" not in settings and "AWS_REGION" not in environment:
        return None
    profile = {"AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"} & environment.keys()
    default = Path(environment.get("HOME", "/"), ".aws", "credentials")
    if "access_key_id" not in settings and (profile or default.exists()):
        return None
    return tuple(sorted({**settings, "allow_http": str(endpoint.startswith("http://"))}.items()))


def _place(location: str) -> tuple[str, str]:
    bucket, _, key = location.partition("://")[2].partition("/")
    return S3 + bucket, key
