"""Transforms of Kafka Connect: those that take an envelope off are `records.envelope`, others ask.

Invariants: each transform is accounted for once, with its own options; one that is applied only
where a predicate holds is not taken for the same without it.

Source: Kafka, "Transformations"; Iceberg, "Kafka Connect", SMTs; Debezium, "New Record State
Extraction".
"""

from __future__ import annotations

from penstock.app.init.migrate.account import Migrated, Options
from penstock.spec.secrets import is_secret_name

_ENVELOPES = {
    "DebeziumTransform": "debezium",
    "ExtractNewRecordState": "debezium",
    "DmsTransform": "dms",
}
_PREDICATES = "predicates"
_DECIDE = "what it does to each record: transform.columns, where, or records.envelope"


def transforms(found: Migrated, options: Options) -> None:
    """Account for `transforms`, `predicates` and what stands below them."""
    names = [name.strip() for name in options.get("transforms", "").split(",") if name.strip()]
    if "transforms" in options:
        found.leave("transforms", "each one is listed by itself" if names else "there is none")
    for name in names:
        _transform(found, f"transforms.{name}", options)
    for key, value in options.items():
        listed = key.startswith(tuple(f"transforms.{name}." for name in names))
        if key.startswith("transforms.") and not listed:
            found.leave(key, "it is not among  transforms")
        elif key == _PREDICATES and value.strip():
            found.ask(key, value, "which records transforms are applied to: tables[].where")
        elif key.startswith(_PREDICATES):
            found.leave(key, "with  predicates")


def _transform(found: Migrated, name: str, options: Options) -> None:
    kind, below = options.get(f"{name}.type", ""), f"{name}."
    own = {key.removeprefix(below): key for key in options if key.startswith(below)}
    more = [each for each in own if each != "type"]
    envelope = _ENVELOPES.get(kind.rpartition(".")[2])
    if envelope and not more:
        found.put(f"{name}.type", "records.envelope", envelope)
        return
    if envelope:
        found.spec.setdefault("records", {})["envelope"] = envelope
    given = [f"{each}={options[own[each]]}" for each in more if not is_secret_name(each)]
    found.ask(f"{name}.type", " ".join([kind or "(not set)", *given]), _DECIDE)
    for each in more:
        found.leave(own[each], f"with  {name}.type, which is undecided")
