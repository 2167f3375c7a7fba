"""Threads that ask one Hive metastore at once have a connection each."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import NoSuchObjectException
from tests.servers.listening import listening
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from penstock.connectors.iceberg.catalogs.hive import TimedHive
from penstock.connectors.iceberg.catalogs.opening import opened

WAIT_SECONDS = 90.0


class Metastore:
    """Answers that a table is not there, once the test lets it."""

    def __init__(self, *tables: str) -> None:
        self.asked = {each: threading.Event() for each in tables}
        self.answers = {each: threading.Event() for each in tables}

    def get_table(self, dbname: str, tbl_name: str) -> object:
        self.asked[tbl_name].set()
        assert self.answers[tbl_name].wait(WAIT_SECONDS)
        raise NoSuchObjectException(f"{dbname}.{tbl_name}")

    def get_all_databases(self) -> list[str]:
        return ["shop"]

    def serve(self, client: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(client)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        processor = ThriftHiveMetastore.Processor(self)
        try:
            while True:
                processor.process(protocol, protocol)
        except TTransportException:
            transport.close()


@pytest.fixture
def metastore() -> Metastore:
    return Metastore("orders", "lines")


@pytest.fixture
def catalog(metastore: Metastore) -> Iterator[TimedHive]:
    with listening(0, metastore.serve) as port:
        given = {"type": "hive", "uri": f"thrift://127.0.0.1:{port}"}
        found = opened("lake", given, WAIT_SECONDS)
        assert isinstance(found, TimedHive)
        yield found


def test_the_first_to_finish_leaves_the_others_connection_open(
    catalog: TimedHive, metastore: Metastore
) -> None:
    with ThreadPoolExecutor(2) as pool:
        orders = pool.submit(catalog.table_exists, "shop.orders")
        assert metastore.asked["orders"].wait(WAIT_SECONDS)
        lines = pool.submit(catalog.table_exists, "shop.lines")
        assert metastore.asked["lines"].wait(WAIT_SECONDS)
        metastore.answers["orders"].set()
        first = orders.result(WAIT_SECONDS)
        metastore.answers["lines"].set()
        second = lines.result(WAIT_SECONDS)

    assert (False, False) == (first, second)


def test_a_question_within_another_has_a_connection_of_its_own(catalog: TimedHive) -> None:
    with catalog._client as outer:
        with catalog._client as inner:
            assert ["shop"] == inner.get_all_databases()
        assert ["shop"] == outer.get_all_databases()
