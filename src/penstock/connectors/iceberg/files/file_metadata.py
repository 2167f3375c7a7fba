"""File descriptions: statistics of a written file to versioned JSON, and back to Iceberg's.

Theory of operation: on the worker the footer of a finished Parquet file has sizes, counts and
bounds by field id, and what was counted of an ORC file has counts and bounds (`described`); on the
driver, perhaps after a crash, `data_file` rebuilds what goes into a manifest without opening the
file.

Invariants:
- bounds are Iceberg's single values in binary, base64 in the JSON, truncated as the table's
  `write.metadata.metrics.*` say; a bound above `BOUND_BYTES_MAX` is left out, which is always safe;
- bounds hold for all row groups of a file or are left out (`files/footers.py`); PyIceberg's own
  statistics take those of the row groups that have some, and readers then skip rows;
- bounds of floats leave NaN out, so a column that holds NaN has none, and one of nothing but NaN
  not their count either: Spark takes NaN for the greatest number, and Iceberg skips files by bounds
  and by that count as if no comparison held for NaN (docs/design/0232);
- columns within structs, lists and maps have counts and no bounds, as with PyIceberg; those within
  lists and maps of an ORC file, and row ids, which are none of the table's, have nothing;
- a description of another format than Parquet has the version of those who know formats;
- columns beyond `METRICS_COLUMNS_MAX` have none unless the table names a default mode, so a
  description stays small however wide the table is.

Source: Apache Iceberg table specification, "Manifests", "Appendix D: Single-value
serialization".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow.parquet as pq
import pydantic
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DoubleType, FloatType, PrimitiveType, StringType
from pyiceberg.utils.truncate import (
    truncate_upper_bound_binary_string,
    truncate_upper_bound_text_string,
)

from penstock.connectors.iceberg.schema.late_spec import spec_of
from penstock.connectors.iceberg.schema.row_ids import ROW_ID_FIELDS
from penstock.core.commits import DataFile
from penstock.core.table_errors import file_rejected
from penstock.files import Written
from penstock.files.column_facts import ColumnFacts
from penstock.files.footers import extremes, null_count, row_groups_of, statistics_of
from penstock.files.orc import OrcContents
from penstock.files.texts import is_kept_whole

DESCRIPTION_VERSION = 2
_OF_PARQUET = 1
Metadata: TypeAlias = pq.FileMetaData | OrcContents
"""What an encoding says of a file."""
METRICS_COLUMNS_MAX = 100
BOUND_BYTES_MAX = 1024
_TEXT_CHARACTERS = 16
"""How much of a text bounds keep where no property says so."""
PARTITION_LABEL_MAX = 256

_METRICS_MAX_KEY = "write.metadata.metrics.max-inferred-column-defaults"


class Describer:
    """Describes the finished files of one table's writer.

    `order_id` names the sort order that the writer was given, where that is one of the table.
    """

    def __init__(
        self,
        schema: IcebergSchema,
        spec: PartitionSpec,
        properties: Mapping[str, str],
        order_id: int | None = None,
    ) -> None:
        self._schema = schema
        self._order_id = order_id
        self._spec = spec
        self._plan = _plan(schema, dict(properties))
        self._ids = parquet_path_to_id_mapping(schema)
        self._types = _kinds(spec, schema)

    def described(self, path: str, written: Written[Metadata]) -> DataFile:
        """Describe a file; its partition holds values in Iceberg's internal form."""
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
        try:
            path = self._spec.partition_to_path(Record(*partition), self._schema)
        except (ArithmeticError, ValueError):  # no words for it; a label is for people alone
            return ""
        return path[:PARTITION_LABEL_MAX]

    def _detail(self, written: Written[Metadata]) -> str:
        is_orc = isinstance(written.metadata, OrcContents)
        columns = sorted(self._columns(written.metadata))
        counted = {number for number, _, count, *_ in columns if count is not None}
        values = [
            None if value is None else _text(to_bytes(kind, value))
            for kind, value in zip(self._types, written.partition, strict=True)
        ]
        nans = sorted((self._ids[path], count) for path, count in written.nans.items())
        return json.dumps(
            {
                "v": DESCRIPTION_VERSION if is_orc else _OF_PARQUET,
                **({"format": FileFormat.ORC.value} if is_orc else {}),
                "spec": self._spec.spec_id,
                "partition": values,
                "columns": columns,
                "nans": [each for each in nans if each[0] in counted],
                "splits": _splits(written.metadata),
                "order": self._order_id if written.is_ordered else None,
            },
            separators=(",", ":"),
        )

    def _columns(self, metadata: Metadata) -> Iterator[list[Any]]:
        if isinstance(metadata, OrcContents):
            for path, facts in metadata.columns.items():
                if path not in ROW_ID_FIELDS:
                    yield _counted(facts, self._plan[self._ids[path]])
            return
        groups, schema = row_groups_of(metadata), metadata.schema
        for at in range(metadata.num_columns):
            path = schema.column(at).path
            if path not in ROW_ID_FIELDS:
                chunks = [each.column(at) for each in groups]
                yield _column(chunks, self._plan[self._ids[path]])


def data_file(file: DataFile, metadata: TableMetadata, table: str) -> ManifestFile:
    """Rebuild what a manifest holds of a file.

    Raises InvalidError (P439) when the file holds a column that the table no longer has, or was
    written for a partition spec the table does not know: its rows have to be written again.
    """
    try:
        detail = json.loads(file.detail)
        if detail["v"] > DESCRIPTION_VERSION:
            raise file_rejected(file.path, table, f"its description has version {detail['v']}")
        spec = spec_of(metadata, detail["spec"])
        schema = metadata.schema()
        lost = {column[0] for column in detail["columns"]}.difference(schema.field_ids)
        if lost:
            raise file_rejected(
                file.path, table, f"the table lost its columns with ids {sorted(lost)[:9]}"
            )
        return _rebuilt(file, detail, spec, schema)
    except (ValueError, KeyError, TypeError, IndexError, pydantic.ValidationError) as error:
        raise file_rejected(
            file.path, table, f"{type(error).__name__}: {str(error)[:120]}"
        ) from error


def _rebuilt(
    file: DataFile, detail: Mapping[str, Any], spec: PartitionSpec, schema: IcebergSchema
) -> ManifestFile:
    columns: list[list[Any]] = detail["columns"]
    values = {column[0]: column[2] for column in columns if column[2] is not None}
    nans = {number: count for number, count in detail.get("nans", ()) if count < values[number]}
    bounded = [
        each
        for each in columns
        if nans.get(each[0]) == 0
        or not isinstance(schema.find_type(each[0]), FloatType | DoubleType)
    ]
    kinds = _kinds(spec, schema)
    partition = [
        None if text is None else internal(from_bytes(kind, _bytes(text)))
        for kind, text in zip(kinds, detail["partition"], strict=True)
    ]
    rebuilt = ManifestFile.from_args(
        _table_format_version=3,
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat(detail.get("format", FileFormat.PARQUET.value)),
        partition=Record(*partition),
        record_count=file.record_count,
        file_size_in_bytes=file.size_bytes,
        column_sizes={column[0]: column[1] for column in columns if column[1] is not None},
        value_counts=values,
        null_value_counts={column[0]: column[3] for column in columns if column[3] is not None},
        nan_value_counts=nans,
        lower_bounds={column[0]: _bytes(column[4]) for column in bounded if column[4] is not None},
        upper_bounds={column[0]: _bytes(column[5]) for column in bounded if column[5] is not None},
        key_metadata=None,
        split_offsets=list(detail["splits"]),
        equality_ids=None,
        sort_order_id=detail.get("order"),
    )
    rebuilt.spec_id = spec.spec_id
    return rebuilt


def _kinds(spec: PartitionSpec, schema: IcebergSchema) -> list[PrimitiveType]:
    found = [field.field_type for field in spec.partition_type(schema).fields]
    return [kind for kind in found if isinstance(kind, PrimitiveType)]


def _plan(schema: IcebergSchema, properties: dict[str, str]) -> dict[int, StatisticsCollector]:
    """Return what is kept for each column; without a default, for the first columns only."""
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


def _column(chunks: Sequence[pq.ColumnChunkMetaData], plan: StatisticsCollector) -> list[Any]:
    size = sum(each.total_compressed_size for each in chunks)
    if plan.mode.type is MetricModeTypes.NONE:
        return [plan.field_id, size, None, None, None, None]
    values = sum(each.num_values for each in chunks)
    known = statistics_of(chunks)
    found = None if plan.mode.type is MetricModeTypes.COUNTS else extremes(known)
    low, high = (None, None) if found is None else _bounds(plan, *found)
    return [plan.field_id, size, values, null_count(known), _kept(low), _kept(high)]


def _counted(facts: ColumnFacts, plan: StatisticsCollector) -> list[Any]:
    if plan.mode.type is MetricModeTypes.NONE:
        return [plan.field_id, None, None, None, None, None]
    low, high = None, None
    if plan.mode.type is not MetricModeTypes.COUNTS and facts.least is not None:
        low, high = _bounds(plan, facts.least, facts.greatest)
    return [plan.field_id, None, facts.values, facts.nulls, _kept(low), _kept(high)]


def _bounds(
    plan: StatisticsCollector, least: Any, greatest: Any
) -> tuple[bytes | None, bytes | None]:
    kind, length = plan.iceberg_type, plan.mode.length
    if isinstance(kind, StringType):
        if length == _TEXT_CHARACTERS and is_kept_whole(least, greatest):
            length = len(least)
        least, greatest = least[:length], truncate_upper_bound_text_string(greatest, length)
    elif isinstance(kind, BinaryType):
        least, greatest = least[:length], truncate_upper_bound_binary_string(greatest, length)
    try:
        return to_bytes(kind, least), None if greatest is None else to_bytes(kind, greatest)
    except UnicodeEncodeError:
        # PyIceberg adds one to the last character it keeps; what follows U+D7FF is no text.
        return to_bytes(kind, least), None


def _kept(bound: bytes | None) -> str | None:
    return None if bound is None or len(bound) > BOUND_BYTES_MAX else _text(bound)


def _splits(footer: Metadata) -> list[int]:
    if isinstance(footer, OrcContents):
        return list(footer.stripes)
    firsts = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
    return sorted(
        min(each.dictionary_page_offset, each.data_page_offset)
        if each.has_dictionary_page
        else each.data_page_offset
        for each in firsts
    )


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def internal(value: Any) -> Any:
    """Return a partition value as manifests are written with it: a UUID as its bytes."""
    return value.bytes if hasattr(value, "bytes") and hasattr(value, "hex") else value
