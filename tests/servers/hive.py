"""A real Hive metastore for tests: the one that Spark brings along, over a Derby of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.servers.answering import wait_until_it_answers
from tests.servers.jars import java_program

from penstock.dev.ports import free_port

START_SECONDS_MAX = 120.0
_JARS = f"{Path(pyspark.__file__).parent}/jars/*"
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OPEN = "--add-opens=java.base/java.net=ALL-UNNAMED"
_SITE = {
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "HikariCP",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.thrift.bind.host": "127.0.0.1",
    "hive.async.log.enabled": "false",
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}
_LOCKS = """\
CONNECT '{url}';
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL,
  TXN_STARTED bigint NOT NULL, TXN_LAST_HEARTBEAT bigint NOT NULL, TXN_USER varchar(128) NOT NULL,
  TXN_HOST varchar(128) NOT NULL, TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128),
  TXN_HEARTBEAT_COUNT integer);
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint, TC_DATABASE varchar(128) NOT NULL,
  TC_TABLE varchar(128), TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL,
  HL_TXNID bigint, HL_DB varchar(128) NOT NULL, HL_TABLE varchar(128), HL_PARTITION varchar(767),
  HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL,
  HL_ACQUIRED_AT bigint, HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL,
  HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint,
  HL_BLOCKEDBY_INT_ID bigint, PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL,
  MT_COMMENT varchar(255), PRIMARY KEY (MT_KEY1, MT_KEY2));
"""
"""What the metastore needs to lock tables, and does not create by itself."""


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run a metastore whose database is below a directory; give its address."""
    directory.mkdir(parents=True, exist_ok=True)
    url = f"jdbc:derby:{directory}/db;create=true"
    (directory / "locks.sql").write_text(_LOCKS.format(url=url))
    site = {
        **_SITE,
        "javax.jdo.option.ConnectionURL": url,
        "hive.metastore.warehouse.dir": f"file://{directory}/warehouse",
    }
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in site.items()
    )
    (directory / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
    port = free_port()
    server = ("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port))
    with (directory / "log").open("ab") as log:
        given = {"cwd": directory, "stdout": log, "stderr": log, "env": dict(os.environ)}
        creating = [java_program(), "-cp", _JARS, "org.apache.derby.tools.ij", "locks.sql"]
        subprocess.run(creating, check=True, **given)
        temporary = (f"-Dhive.log.dir={directory}", f"-Djava.io.tmpdir={directory}")
        words = [java_program(), *_JAVA, _OPEN, *temporary, "-cp", f"{directory}:{_JARS}", *server]
        process = subprocess.Popen(words, **given)
    try:
        wait_until_it_answers(
            lambda: socket.create_connection(("127.0.0.1", port), timeout=5).close(),
            process,
            directory / "log",
            seconds_max=START_SECONDS_MAX,
        )
        yield f"thrift://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
