"""DataFrames of a real local Spark, published into a real broker: each batch once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.cli.conftest import cluster  # noqa: F401
from tests.integration.cli.test_publish import Mirror
from tests.integration.readers.lakes import Lakes
from tests.processes.broker import Cluster

import penstock
from penstock.core.errors import DecisionNeededError, InvalidError

pytestmark = pytest.mark.spark
PARTITIONS = 2


class Frames(Mirror):
    """A spec for DataFrames, and what readers find of them."""

    def __init__(self, kafka: Cluster, directory: Path) -> None:
        self.cluster, self.directory = kafka, directory
        topic = {"create": True, "partitions": PARTITIONS}
        self.spec = {
            "name": "frames",
            "kafka": {"brokers": kafka.bootstrap},
            "publish": [
                {
                    "name": name,
                    "from": {"dataframe": kind},
                    "into": f"frames.{name}",
                    "topic": topic,
                    "key": "k",
                    "transaction": {"or_records": 1000},
                }
                for name, kind in (("scores", "runs"), ("clicks", "batches"), ("visits", "batches"))
            ],
            "spark": {"master": "inline"},
        }
        self.path = directory / "penstock.yaml"
        self.path.write_text(json.dumps(self.spec))

    def ids(self, name: str) -> Counter[int]:
        """Count the ids that a reader of committed records finds."""
        read = self.read(f"frames.{name}", partitions=PARTITIONS)
        return Counter(json.loads(value)["id"] for own in read.values() for _, value, *_ in own)


@pytest.fixture
def frames(request: pytest.FixtureRequest, tmp_path: Path) -> Frames:
    return Frames(request.getfixturevalue("cluster"), tmp_path)


def test_a_dataframe_is_published_once_by_the_id_of_its_run(lakes: Lakes, frames: Frames) -> None:
    spark = lakes.spark
    frame = spark.range(100, numPartitions=4).selectExpr("id", "cast(id % 7 as string) k", "rand()")
    first = penstock.publish_once(frame, frames.path, "scores", run="monday")
    again = penstock.publish_once(frame, frames.path, "scores", run="monday")
    audit = frames.call("audit", "scores", "--count", "--json")

    assert [(100, 1), (0, 0)] == [(each.rows, each.transactions) for each in (first, again)]
    assert Counter(range(100)) == frames.ids("scores")
    (found,) = audit.json["publications"]
    assert (2, [], 1) == (audit.code, found["breaks"], len(found["not_compared"]))
    with pytest.raises(InvalidError) as refused:
        penstock.publish_once(spark.range(1001), frames.path, "scores", run="large")
    assert "P865" == refused.value.code
    with pytest.raises(InvalidError) as refused:
        penstock.publisher(frames.path, "scores")
    assert "P864" == refused.value.code
    by_command = frames.call("publish", "scores")
    assert (2, True) == (by_command.code, "P864" in by_command.err)


def test_batches_of_a_stream_are_published_once(lakes: Lakes, frames: Frames) -> None:
    """The checkpoint forgets that a batch was done, as when a driver dies right before: once."""
    spark = lakes.spark
    rows, checkpoint = str(frames.directory / "rows"), frames.directory / "checkpoint"

    def stream(begin: int, stop: int, at: Path = checkpoint) -> None:
        made = spark.range(begin, stop).selectExpr("id", "cast(id % 7 as string) k")
        made.write.mode("append").parquet(rows)
        read = spark.readStream.schema(made.schema).parquet(rows).writeStream
        read = read.foreachBatch(penstock.publisher(frames.path, "clicks"))
        read = read.option("checkpointLocation", str(at)).trigger(availableNow=True)
        read.start().awaitTermination()

    stream(0, 50)
    stream(50, 80)
    (checkpoint / "commits/1").unlink()
    (checkpoint / "commits/.1.crc").unlink(missing_ok=True)
    stream(80, 100)

    assert Counter(range(100)) == frames.ids("clicks")
    with pytest.raises(Exception, match="does not go on with this batch"):
        stream(100, 101, frames.directory / "another")
    with pytest.raises(InvalidError) as refused:
        penstock.publisher(frames.path, "clicks")(spark.range(3), 9)
    assert "P863" == refused.value.code
    back = penstock.publisher(frames.path, "clicks", query="of another")
    with pytest.raises(DecisionNeededError) as stopped:
        back(spark.range(3), 9)
    assert "P862" == stopped.value.code


def test_a_consent_of_a_program_holds_for_one_batch(frames: Frames) -> None:
    """A checkpoint that goes back later is another decision."""

    def rows(*ids: int) -> pa.Table:
        return pa.table({"id": ids, "k": ["a"] * len(ids)})

    penstock.publisher(frames.path, "visits", query="first")(rows(1), 7)
    publish = penstock.publisher(frames.path, "visits", query="second", accept=["gap"])
    publish(rows(2), 0)
    publish(rows(3), 5)
    with pytest.raises(DecisionNeededError) as stopped:
        publish(rows(2), 4)

    assert "P862" == stopped.value.code
    assert Counter([1, 2, 3]) == frames.ids("visits")
