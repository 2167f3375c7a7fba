"""What must agree within the description of records, and with their schema registry."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.spec.checks.security import check_registry
from penstock.spec.problems import KeyPath, Problem
from penstock.spec.settings.records import REGISTERED, Records, RegistrySettings

_OF_JSON = frozenset({"dms", "maxwell", "canal"})
_WITH_JSON_EVENTS = frozenset({"json", "json-schema"})


def check_records(
    records: Records, registry: RegistrySettings | None, at: KeyPath
) -> Iterator[Problem]:
    """Find what does not agree; `registry` may be the one of the whole spec."""
    for format_ in {records.format, records.key_format} & REGISTERED if registry is None else ():
        fact = f"format {format_} needs 'registry'"
        hint = "add  registry: https://registry:8081"
        yield Problem((*at, "registry"), "P151", fact, hint, on_key=True)
    if records.format not in REGISTERED:
        for name in ("framing", "schema_id"):
            if getattr(records, name) != Records.model_fields[name].default:
                fact = f"'{name}' is not used with format {records.format}"
                yield Problem((*at, name), "P151", fact, "remove it")
    if records.envelope in _OF_JSON and records.format not in _WITH_JSON_EVENTS:
        fact = f"events of {records.envelope} are JSON, not {records.format}"
        yield Problem((*at, "envelope"), "P151", fact, "write  format: json")
    if records.framing == "single-object":
        if records.format != "avro":
            fact = "only avro has single objects"
            yield Problem((*at, "framing"), "P151", fact, "write  format: avro")
        if registry is not None and not registry.url.startswith(("mock:", "${")):
            fact = "single objects name schemas by fingerprint, which no registry can look up"
            yield Problem(
                (*at, "framing"), "P151", fact, "write  registry: mock:///path/of/schemas"
            )
    if records.registry is not None:
        yield from check_registry(records.registry, (*at, "registry"))
