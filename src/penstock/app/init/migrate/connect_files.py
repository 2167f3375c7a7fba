"""Source connectors of files become publications of files: FileStreamSource, and SpoolDir's."""

from __future__ import annotations

import json
import re
from typing import Any

from penstock.app.init.migrate.account import Migrated, Options, Rules, asked, milliseconds, unknown
from penstock.app.init.migrate.publications import in_publications

LINE = {"format": "bytes", "column": "line"}
_SIMPLE = re.compile(r"\^?\.[*+]\\\.(?P<ending>[A-Za-z0-9]+)\$?")
_TYPES = {
    "STRING": "string",
    "BOOLEAN": "boolean",
    "INT8": "int",
    "INT16": "int",
    "INT32": "int",
    "INT64": "long",
    "FLOAT32": "float",
    "FLOAT64": "double",
}


def file_stream(found: Migrated, options: Options) -> list[dict[str, Any]]:
    """Translate the connector that follows one file. Raises InvalidError (P165)."""
    file, topic = options.get("file"), options.get("topic")
    if not file or not topic:
        raise unknown("it follows no file: it has no  file,  or no  topic")
    found.mapped += [("file", "publish[].from.files"), ("topic", "publish[].into")]
    source = {"files": file, "format": "lines", "grows": True}
    return [{"from": source, "into": topic, "value": dict(LINE)}]


FILE_STREAM: Rules = {"batch.size": "a transaction holds what  transaction.or_records  says"}


def spool_dir(found: Migrated, options: Options) -> list[dict[str, Any]]:
    """Translate a connector that publishes the files of a folder. Raises InvalidError (P165)."""
    kind, folder = options["connector.class"], options.get("input.path", "").rstrip("/")
    formats = {"LineDelimited": "lines", "Csv": "csv", "Json": "json"}
    form = next((each for word, each in formats.items() if word in kind), None)
    if form is None or not folder or "topic" not in options:
        raise unknown(f"of SpoolDir's connectors {', '.join(formats)} are known, with a topic")
    source: dict[str, Any] = {"files": f"{folder}/", "format": form, "order": "name"}
    found.mapped += [("input.path", "publish[].from.files"), ("topic", "publish[].into")]
    pattern = options.get("input.file.pattern", "")
    if simple := _SIMPLE.fullmatch(pattern):
        source["files"] = f"{folder}/*.{simple['ending']}"
        found.mapped.append(("input.file.pattern", "publish[].from.files"))
    else:
        found.ask("input.file.pattern", pattern, "which files: publish[].from.files, with * and ?")
    if form != "lines":
        source["columns"] = _columns(found, options.get("value.schema", ""))
    if "csv.separator.char" in options:
        source["delimiter"] = chr(int(options["csv.separator.char"]))
        found.mapped.append(("csv.separator.char", "publish[].from.delimiter"))
    rule = {"from": source, "into": options["topic"]}
    return [{**rule, "value": dict(LINE)} if form == "lines" else rule]


def _columns(found: Migrated, schema: str) -> dict[str, str]:
    """Return the columns of a schema of Connect; what it does not say is for a person to write."""
    try:
        fields = json.loads(schema)["fieldSchemas"]
        columns = {name: _TYPES[each["type"]] for name, each in fields.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        found.ask("value.schema", "", "which columns are read: publish[].from.columns")
        return {}
    found.mapped.append(("value.schema", "publish[].from.columns"))
    return columns


SPOOL_DIR: Rules = {
    "key.schema": asked("which columns are the key: publish[].key"),
    "finished.path error.path cleanup.policy*": "a file stays where it is, and is published once",
    "file.minimum.age.ms": in_publications("from.settle", milliseconds),
    "empty.poll.wait.ms": in_publications("transaction.interval", milliseconds),
    "batch.size file.buffer.size.bytes processing.file.extension input.path.walk.recursively=false"
    " halt.on.error=true csv.first.row.as.header=true": "as here",
    "schema.generation.*": "columns are named in the spec",
    "files.sort.attributes=nameasc": "files are read in the order of their names",
}
