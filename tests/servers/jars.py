"""The jars of tests, pinned by the lock files beside this one and kept in Penstock's cache."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.dev.jars import Bundle, jars_of
from penstock.engines.java import SPARK_JAVA_MAJORS, find_java

_HERE = Path(__file__).parent
_ICEBERG, _JETTY = "1.11.0", "12.1.5"

REST_CATALOG = Bundle(
    f"iceberg-rest-{_ICEBERG}",
    (
        ("org.apache.iceberg", "iceberg-open-api", _ICEBERG, "test-fixtures"),
        ("org.apache.iceberg", "iceberg-core", _ICEBERG),
        ("org.apache.iceberg", "iceberg-core", _ICEBERG, "tests"),
        ("org.apache.iceberg", "iceberg-aws", _ICEBERG),
        ("org.apache.iceberg", "iceberg-aws-bundle", _ICEBERG),
        ("org.eclipse.jetty", "jetty-server", _JETTY),
        ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY),
        ("org.eclipse.jetty.compression", "jetty-compression-server", _JETTY),
        ("org.eclipse.jetty.compression", "jetty-compression-gzip", _JETTY),
        ("org.apache.hadoop", "hadoop-client-api", "3.4.2"),
        ("org.apache.hadoop", "hadoop-client-runtime", "3.4.2"),
        ("org.xerial", "sqlite-jdbc", "3.54.1.0"),
        ("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
    _HERE / "rest.jars.lock",
)

SPARK_READER = Bundle(
    f"iceberg-spark-{_ICEBERG}",
    (
        ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", _ICEBERG),
        ("org.postgresql", "postgresql", "42.7.8"),
        ("org.xerial", "sqlite-jdbc", "3.54.1.0"),
    ),
    _HERE / "spark.jars.lock",
)


def class_path(bundle: Bundle) -> str:
    """Fetch a bundle where it is not yet here; give what Java takes for its class path."""
    java = find_java(SPARK_JAVA_MAJORS, environment=os.environ)
    return f"{jars_of(bundle, java)}/*"


def java_program() -> str:
    return str(find_java(SPARK_JAVA_MAJORS, environment=os.environ).path)
