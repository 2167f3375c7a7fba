"""Asks a Hive metastore with a timeout; imported only where PyIceberg's extra `hive` is installed.

Invariants:
- each `with` has a connection of its own: PyIceberg keeps one for a whole catalog, and threads that
  commit at the same time would close each other's;
- all else but the timeout and the third format is as PyIceberg does it.
"""

from __future__ import annotations

from urllib.parse import urlparse

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
from thrift.transport import TSocket, TTransport

from penstock.connectors.iceberg.catalogs.third_format import ThirdFormat


class TimedHive(ThirdFormat, HiveCatalog):
    """A Hive metastore that is given up when it does not answer in time (TTransportException)."""

    def __init__(self, name: str, timeout_seconds: float, /, **properties: str) -> None:
        self._timeout_seconds = timeout_seconds
        super().__init__(name, **properties)

    @property
    def _client(self) -> _HiveClient:
        return _TimedClient(self._settings, self._timeout_seconds)

    @_client.setter
    def _client(self, settings: _HiveClient) -> None:
        self._settings = settings


class _TimedClient(_HiveClient):
    def __init__(self, client: _HiveClient, timeout_seconds: float) -> None:
        vars(self).update(vars(client))
        self._timeout_ms = timeout_seconds * 1000
        self._transport = self._init_thrift_transport()

    def _init_thrift_transport(self) -> TTransport:
        place = urlparse(self._uri)
        socket = TSocket.TSocket(place.hostname, place.port)
        socket.setTimeout(self._timeout_ms)
        if self._kerberos_auth:
            service = self._kerberos_service_name
            return TTransport.TSaslClientTransport(socket, host=place.hostname, service=service)
        return TTransport.TBufferedTransport(socket)
