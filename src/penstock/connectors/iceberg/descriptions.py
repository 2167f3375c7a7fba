"""File descriptions: statistics from a Parquet footer to versioned JSON, and back to Iceberg's.

Theory of operation: on the worker the footer of a finished file gives sizes, counts and bounds by
field id (`described`); on the driver, perhaps after a crash, `data_file` rebuilds what goes into a
manifest without opening the file.

Invariants:
- bounds are Iceberg's single values in binary, base64 in the JSON, truncated as the table's
  `write.metadata.metrics.*` say; a bound above `BOUND_BYTES_MAX` is left out, which is always safe;
- bounds of floats leave NaN out, so they are told only beside the number of NaN: a reader takes
  them for bounds of all rows otherwise, and deletes files by them whose rows do not match;
- columns beyond `METRICS_COLUMNS_MAX` have none unless the table names a default mode, so a
  description stays small however wide the table is.

Source: Apache Iceberg table specification, "Manifests", "Appendix D: Single-value
serialization".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    StatsAggregator,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from penstock.connectors.iceberg.schemas import field_ids
from penstock.core.commits import DataFile
from penstock.core.errors import InvalidError
from penstock.files import Written

DESCRIPTION_VERSION = 1
METRICS_COLUMNS_MAX = 100
BOUND_BYTES_MAX = 1024
PARTITION_LABEL_MAX = 256

_METRICS_MAX_KEY = "write.metadata.metrics.max-inferred-column-defaults"


class Describer:
    """Describes the finished files of one table's writer."""

    def __init__(
        self, schema: IcebergSchema, spec: PartitionSpec, properties: Mapping[str, str]
    ) -> None:
        self._schema = schema
        self._spec = spec
        self._plan = _plan(schema, dict(properties))
        self._ids = parquet_path_to_id_mapping(schema)
        self._types = _kinds(spec, schema)

    def described(self, path: str, written: Written) -> DataFile:
        """Describe a file by its footer; its partition holds values in Iceberg's internal form."""
        return DataFile(
            path=path,
            record_count=written.records,
            size_bytes=written.size_bytes,
            ranges={},
            partition=self._label(written.partition),
            detail=self._detail(written),
        )

    def _label(self, partition: Sequence[Any]) -> str:
        if not partition:
            return ""
        path = self._spec.partition_to_path(Record(*partition), self._schema)
        return path[:PARTITION_LABEL_MAX]

    def _detail(self, written: Written) -> str:
        footer = written.metadata
        found = data_file_statistics_from_parquet_metadata(footer, self._plan, self._ids)
        bounds = found.column_aggregates
        columns = [
            [
                number,
                size,
                found.value_counts.get(number),
                found.null_value_counts.get(number),
                _bound(bounds[number].min_as_bytes()) if number in bounds else None,
                _bound(_upper(bounds[number])) if number in bounds else None,
            ]
            for number, size in sorted(found.column_sizes.items())
        ]
        values = [
            None if value is None else _text(to_bytes(kind, value))
            for kind, value in zip(self._types, written.partition, strict=True)
        ]
        nans = sorted((self._ids[path], count) for path, count in written.nans.items())
        return json.dumps(
            {
                "v": DESCRIPTION_VERSION,
                "spec": self._spec.spec_id,
                "partition": values,
                "columns": columns,
                "nans": [each for each in nans if each[0] in found.value_counts],
                "splits": found.split_offsets,
            },
            separators=(",", ":"),
        )


def data_file(file: DataFile, metadata: TableMetadata, table: str) -> ManifestFile:
    """Rebuild what a manifest holds of a file.

    Raises InvalidError (P439) when the file holds a column that the table no longer has, or was
    written for a partition spec the table does not know: its rows have to be written again.
    """
    try:
        detail = json.loads(file.detail)
        if detail["v"] > DESCRIPTION_VERSION:
            raise _unfit(file, table, f"its description has version {detail['v']}")
        spec = metadata.specs()[detail["spec"]]
        schema = metadata.schema()
        gone = {column[0] for column in detail["columns"]} - field_ids(schema)
        if gone:
            raise _unfit(file, table, f"it holds columns the table lost (ids {sorted(gone)[:9]})")
        return _rebuilt(file, detail, spec, schema)
    except (ValueError, KeyError, TypeError, IndexError, pydantic.ValidationError) as error:
        raise _unfit(file, table, f"{type(error).__name__}: {str(error)[:120]}") from error


def _rebuilt(
    file: DataFile, detail: Mapping[str, Any], spec: PartitionSpec, schema: IcebergSchema
) -> ManifestFile:
    columns: list[list[Any]] = detail["columns"]
    nans: dict[int, int] = dict(detail.get("nans", ()))
    bounded = [each for each in columns if each[0] in nans or not _is_float(schema, each[0])]
    kinds = _kinds(spec, schema)
    partition = [
        None if text is None else _internal(from_bytes(kind, _bytes(text)))
        for kind, text in zip(kinds, detail["partition"], strict=True)
    ]
    rebuilt = ManifestFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.record_count,
        file_size_in_bytes=file.size_bytes,
        column_sizes={column[0]: column[1] for column in columns},
        value_counts={column[0]: column[2] for column in columns if column[2] is not None},
        null_value_counts={column[0]: column[3] for column in columns if column[3] is not None},
        nan_value_counts=nans,
        lower_bounds={column[0]: _bytes(column[4]) for column in bounded if column[4] is not None},
        upper_bounds={column[0]: _bytes(column[5]) for column in bounded if column[5] is not None},
        key_metadata=None,
        split_offsets=list(detail["splits"]),
        equality_ids=None,
        sort_order_id=None,
    )
    rebuilt.spec_id = spec.spec_id
    return rebuilt


def _is_float(schema: IcebergSchema, number: int) -> bool:
    return isinstance(schema.find_type(number), FloatType | DoubleType)


def _kinds(spec: PartitionSpec, schema: IcebergSchema) -> list[PrimitiveType]:
    """Give the types of partition values."""
    found = [field.field_type for field in spec.partition_type(schema).fields]
    return [kind for kind in found if isinstance(kind, PrimitiveType)]


def _plan(schema: IcebergSchema, properties: dict[str, str]) -> dict[int, StatisticsCollector]:
    """Say for each column what is kept; the first columns only, unless a default is given."""
    plan = compute_statistics_plan(schema, properties)
    if TableProperties.DEFAULT_WRITE_METRICS_MODE in properties:
        return plan
    most = properties.get(_METRICS_MAX_KEY, "")
    kept = int(most) if most.isdecimal() else METRICS_COLUMNS_MAX
    prefix = TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX
    none = MetricsMode(MetricModeTypes.NONE)
    return {
        number: collector
        if position < kept or f"{prefix}.{collector.column_name}" in properties
        else StatisticsCollector(number, collector.iceberg_type, none, collector.column_name)
        for position, (number, collector) in enumerate(plan.items())
    }


def _bound(value: bytes | None) -> str | None:
    return None if value is None or len(value) > BOUND_BYTES_MAX else _text(value)


def _upper(found: StatsAggregator) -> bytes | None:
    """Give an upper bound, or None for a text that PyIceberg counts up into the surrogates.

    It adds one to the last character it keeps, and what follows U+D7FF is no text.
    """
    try:
        return found.max_as_bytes()
    except UnicodeEncodeError:
        return None


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _internal(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") and hasattr(value, "hex") else value


def _unfit(file: DataFile, table: str, why: str) -> InvalidError:
    return InvalidError(
        f"the prepared file {file.path} cannot be committed to {table}: {why}",
        code="P439",
        hint="its range is read and written again from the log; nothing was committed",
    )
