"""The jars of tests, pinned by the lock files next to this one and kept in Penstock's cache."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from penstock.dev.jars import Bundle, held, jars_of
from penstock.engines.java import find_java

_HERE = Path(__file__).parent
_ICEBERG, _JETTY, _DELTA = "1.11.0", "12.1.5", "4.4.0"
_SPARK_KAFKA = "4.1.1"  # the newest of this line whose parts are all published
_NESSIE = "0.99.0"
_APICURIO = "3.0.9"  # the newest that runs on Java 17


def dependencies(
    coordinates: Iterable[tuple[str, ...]], *, without: Iterable[str] = (), suffix: str = "jar"
) -> str:
    """Return what Ivy resolves: `(group, name, version)`, or with a classifier as fourth part.

    The modules in `without` are left out wherever they are asked for.
    """
    classifiers: dict[tuple[str, ...], list[str]] = {}
    for coordinate in coordinates:
        classifiers.setdefault(coordinate[:3], []).extend(coordinate[3:] or [""])
    wanted = "".join(_dependency(module, asked, suffix) for module, asked in classifiers.items())
    return wanted + "".join(f'<exclude module="{name}"/>' for name in without)


def _dependency(module: tuple[str, ...], classifiers: list[str], suffix: str) -> str:
    """Ask for a module's own artifacts; Ivy takes a module that is asked for twice only once."""
    group, name, version = module
    asked = f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default"'
    is_whole = suffix != "jar" or classifiers == ["runner"]  # what it depends on is in it
    asked += ' transitive="false"' if is_whole else ""
    if classifiers == [""]:
        return f"{asked}/>"
    artifact = f'<artifact name="{name}" type="{suffix}" ext="{suffix}"'
    kinds = [f' m:classifier="{each}"' if each else "" for each in classifiers]
    return f"{asked}>{''.join(f'{artifact}{kind}/>' for kind in kinds)}</dependency>"


REST_CATALOG = Bundle(
    f"iceberg-rest-{_ICEBERG}",
    dependencies(
        [
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
        ]
    ),
    _HERE / "rest.jars.lock",
)

SPARK_READER = Bundle(
    f"iceberg-spark-{_ICEBERG}",
    dependencies(
        [
            ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", _ICEBERG),
            ("org.postgresql", "postgresql", "42.7.8"),
            ("org.xerial", "sqlite-jdbc", "3.54.1.0"),
        ]
    ),
    _HERE / "spark.jars.lock",
)

DELTA_READER = Bundle(
    f"delta-spark-{_DELTA}",
    dependencies(
        [("io.delta", "delta-spark_4.1_2.13", _DELTA)],
        # Spark brings its own of these, and the catalog of Unity is not used.
        without=(
            "spark-core_2.13",
            "spark-sql_2.13",
            "spark-catalyst_2.13",
            "spark-hive_2.13",
            "scala-library",
            "slf4j-api",
            "jsr305",
            "commons-pool",
            "delta-kernel-unitycatalog",
            "unitycatalog-client",
            "unitycatalog-hadoop",
            "log4j-slf4j2-impl",
            "log4j-api",
            "log4j-core",
            "RoaringBitmap",
            "shims",
            "jackson-databind",
            "jackson-core",
            "jackson-annotations",
            "jackson-datatype-jdk8",
            "parquet-hadoop",
            "hadoop-client-api",
            "hadoop-client-runtime",
            "snappy-java",
            "commons-logging",
        ),
    ),
    _HERE / "delta.jars.lock",
)

KAFKA_READER = Bundle(
    f"spark-kafka-{_SPARK_KAFKA}",
    dependencies(
        [("org.apache.spark", "spark-sql-kafka-0-10_2.13", _SPARK_KAFKA)],
        # Spark brings its own of these.
        without=(
            "spark-tags_2.13",
            "scala-library",
            "scala-parallel-collections_2.13",
            "hadoop-client-api",
            "hadoop-client-runtime",
            "zstd-jni",
            "lz4-java",
            "snappy-java",
            "slf4j-api",
            "jsr305",
        ),
    ),
    _HERE / "kafka.jars.lock",
)

NESSIE = Bundle(
    f"nessie-{_NESSIE}",
    dependencies([("org.projectnessie.nessie", "nessie-quarkus", _NESSIE, "runner")]),
    _HERE / "nessie.jars.lock",
)

SCHEMA_REGISTRY = Bundle(
    f"apicurio-registry-{_APICURIO}",
    dependencies([("io.apicurio", "apicurio-registry-app", _APICURIO, "all")], suffix="tar.gz"),
    _HERE / "registry.archive.lock",
    suffix="tar.gz",
)


def class_path(*bundles: Bundle) -> str:
    """Fetch bundles where they are not yet here; give what Java takes for its class path."""
    java = find_java(os.environ)
    return ":".join(f"{jars_of(bundle, java)}/*" for bundle in bundles)


def runner(bundle: Bundle) -> str:
    """Fetch a program where it is not yet here; give the one jar that it is."""
    (jar,) = jars_of(bundle, find_java(os.environ)).glob("*.jar")
    return str(jar)


def unpacked(bundle: Bundle) -> Path:
    """Fetch a distribution where it is not yet here, unpack it once, and give its folder."""
    java = find_java(os.environ)
    packed = jars_of(bundle, java)
    place = packed.with_name(f"{packed.name}-unpacked")
    with held(packed.with_name("unpacking.lock")):
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=packed.parent) as scratch:
                (archive,) = packed.glob(f"*.{bundle.suffix}")
                whole = Path(scratch, "whole")
                with tarfile.open(archive) as file:
                    file.extractall(whole, filter="data")
                whole.rename(place)
    return place


def java_program() -> str:
    return str(find_java(os.environ).path)
