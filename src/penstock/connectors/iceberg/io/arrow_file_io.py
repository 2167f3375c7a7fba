"""Files of Iceberg tables by pyarrow: in which storage one lies, and under which path.

Invariant: what reads, writes, lists or removes a file asks here for its storage, in drivers and in
workers. PyIceberg 0.12 takes the host of `abfss://container@host/…` for a part of the container's
name, and finds nothing there.
"""

from __future__ import annotations

from pyarrow import fs
from pyiceberg.io import ADLS_ACCOUNT_NAME
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

_AZURE = ("abfs", "abfss", "wasb", "wasbs")


def parsed(location: str) -> tuple[str, str, str]:
    """Return a location's scheme, its host, and its path as pyarrow takes it.

    The path begins with the bucket or container, except on a disk.
    """
    scheme, host, path = PyArrowFileIO.parse_location(location)
    container, at, _ = host.partition("@")
    if at and scheme in _AZURE:
        path = container + path.removeprefix(host)
    return scheme, host, path


class ArrowIO(PyArrowFileIO):
    """Implements `pyiceberg.io.FileIO`; an account in an address counts, not the settings'."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return what `parsed` returns: PyIceberg asks here."""
        del properties  # those of HDFS, which is refused
        return parsed(location)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> fs.FileSystem:
        account = (netloc or "").partition("@")[2].partition(".")[0]
        if scheme not in _AZURE or not account:
            return super()._initialize_fs(scheme, netloc)
        properties = {**self.properties, ADLS_ACCOUNT_NAME: account}
        return PyArrowFileIO(properties).fs_by_scheme(scheme, None)


def storage_of(io: PyArrowFileIO, location: str) -> tuple[fs.FileSystem, str]:
    """Return the storage that a location is in, as `io` opens it, and the path there."""
    scheme, host, path = parsed(location)
    return io.fs_by_scheme(scheme, host), path
