"""A program with a Spark session of its own that lends it to penstock; prints what it saw."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import BROADCAST_KEY, SparkSettings

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
engine = SparkEngine(spark, work="spark_jobs:echo")
seen = {"results": engine.run(["a", "b"]), "remarks": len(engine.remarks)}
scratch = Path(spark.sparkContext._temp_dir)
before = sorted(scratch.rglob("*"))
large = SparkEngine(spark, work="spark_jobs:length").run(["x" * 1_500_000] * 2)
seen["large results"] = large
seen["files left"] = len(sorted(scratch.rglob("*"))) - len(before)
seen["changed"] = spark.sparkContext._conf.contains(BROADCAST_KEY)
engine.close()
seen["rows after close"] = spark.range(3).count()
spark.stop()
for name, act in {
    "stopped": lambda: engine.run(["c"]),
    "not a session": lambda: SparkEngine("spark"),
    "wrong master": lambda: SparkEngine(settings=SparkSettings(master="nowhere[7]")),
}.items():
    try:
        act()
    except PenstockError as error:
        seen[name] = error.code
print(json.dumps(seen))
