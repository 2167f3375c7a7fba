"""Asks AWS Glue with a timeout and a few retries; imported only where boto3 is installed.

Invariant: all else but the third format is as PyIceberg does it, with the waits of botocore: 60
seconds, ten times over.
"""

from __future__ import annotations

from typing import Any

from botocore.config import Config
from botocore.session import get_session
from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.glue import GLUE_MAX_RETRIES, GlueCatalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.catalogs.third_format import ThirdFormat, writable

RETRIES = 2


class TimedGlue(ThirdFormat, GlueCatalog):
    """A Glue that is given up when it does not answer in time (botocore's ReadTimeoutError)."""

    def __init__(self, name: str, timeout_seconds: float, /, **properties: Any) -> None:
        session = get_session()
        session.set_default_client_config(
            Config(connect_timeout=timeout_seconds, read_timeout=timeout_seconds)
        )
        retries = int(properties.get(GLUE_MAX_RETRIES, RETRIES))
        own = {BOTOCORE_SESSION: session, GLUE_MAX_RETRIES: retries}
        super().__init__(name, **{**properties, **own})
        self.properties = properties  # as text: they travel on, and a session cannot

    @staticmethod
    def _write_metadata_no_exist_check(
        metadata: TableMetadata, io: FileIO, metadata_path: str
    ) -> None:
        output = io.new_output(metadata_path)
        ToOutputFile.table_metadata(writable(metadata), output, overwrite=True)
