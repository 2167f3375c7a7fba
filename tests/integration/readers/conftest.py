"""One session of Spark that knows both formats, for all that reads tables by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.readers.lakes import Lakes, spark_settings

from penstock.engines.spark.session import start_session
from penstock.engines.spark.settings import SparkSettings


@pytest.fixture(scope="package")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakes]:
    place = tmp_path_factory.mktemp("lakes")
    session = start_session(SparkSettings(master="local[1]", conf=spark_settings(place)))
    opened = Lakes(place, session.spark)
    session.spark.sql("CREATE NAMESPACE lake.shop")
    yield opened
    opened.close()
    session.stop()
