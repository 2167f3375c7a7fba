"""`penstock demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.audit import print_audit
from penstock.cli.output import print_json, print_line, result_console, say
from penstock.cli.parameters import Json
from penstock.cli.publications import Report, audit_lines

if TYPE_CHECKING:
    from penstock.app.demo.story import DemoResult

HOME = Path(".penstock/demo")
ICEBERG_JAR = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


def demo(
    *,
    directory: Path = HOME,
    json: Annotated[Json, Parameter(help="Print the outcome as JSON.")] = False,
) -> int:
    """Run the demo: a real broker, real data, a SIGKILL in the middle, an audit at the end.

    Lands 336,776 flights in an Iceberg and in a Delta table, their weather in a third, and the
    changes of a departure board in two keyed ones; then publishes the flights of the Iceberg table
    into a topic, with a SIGKILL of its own. Exits with 0 only when the audits found every record
    once, and the board's rows are those that its changes leave.

    Example: penstock demo

    Parameters
    ----------
    directory
        The folder for all its files; it is emptied first.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.demo.story import Demo

    clock = SystemClock()
    began = clock.monotonic()
    found = Demo(directory, say, lambda jar, done, total: say(f"  [{done}/{total}] {jar}")).run()
    seconds = clock.monotonic() - began
    if json:
        print_json(
            {
                "exit_code": found.exit_code,
                "records": found.records,
                "published": found.published.records,
                "recovery_seconds": round(found.recovery_seconds, 2),
                "seconds": round(seconds, 1),
                "spec": str(found.spec),
            }
        )
        return found.exit_code
    _show(found, seconds)
    return found.exit_code


def _show(found: DemoResult, seconds: float) -> None:
    from penstock.app.assembly.process import SystemClock
    from penstock.observe.render import StatusText

    print_line("\n$ penstock status")
    result_console().print(StatusText(found.status.snapshot, SystemClock().now_ms()))
    print_line("\n$ penstock audit --count")
    print_audit(found.audit)
    good = found.audit.exit_code == 0
    verdict = "every record landed once in each table" if good else "THE AUDIT FAILED"
    right = f"{found.changes:,} changes leave, read by PyIceberg and deltalake"
    board = f"THE ROWS ARE WRONG in {', '.join(found.wrong)}" if found.wrong else f"what {right}"
    print_line(f"\nThe board in both keyed tables: {board}.")
    print_line(f"{found.records:,} records, two SIGKILLs, {seconds:.0f} s: {verdict}.")
    print_line("\n$ penstock audit --spec publish.yaml --count")
    Report(lines=[*audit_lines(found.published)]).show_lines()
    print_line(reading(found.spec))


def reading(spec: Path) -> str:
    """Return where the tables are and how to read them, three lines each, and what to try next.

    Tables are read through their metadata, never by the files that lie there: those may hold rows
    of a commit that never landed.
    """
    home, jar = spec.parent, ICEBERG_JAR
    python = sys.executable
    return f"""
The tables are in {home}

DuckDB      import duckdb, deltalake
            flights = deltalake.DeltaTable("{home}/delta/nyc/flights").to_pyarrow_dataset()
            print(duckdb.sql("select origin, avg(dep_delay) from flights group by 1"))

PyIceberg   from pyiceberg.catalog import load_catalog
            lake = load_catalog("lake", uri="sqlite:///{home}/lake/catalog.db")
            print(lake.load_table("nyc.flights").scan(row_filter="origin = 'JFK'").count())

deltalake   from deltalake import DeltaTable
            flights = DeltaTable("{home}/delta/nyc/flights")
            print(flights.version(), flights.to_pyarrow_table().num_rows)

Spark       from pyspark.sql import SparkSession     # and lake, as for PyIceberg above
            spark = SparkSession.builder.config("spark.jars.packages", "{jar}").getOrCreate()
            here = lake.load_table("nyc.flights").metadata_location
            spark.read.format("iceberg").load(here).groupBy("origin").count().show()

Try next    {python} -m penstock dev up
            {python} -m penstock validate {spec} --offline
            {python} -m penstock run --help"""
