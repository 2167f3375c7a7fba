"""`penstock init --from-config`: another system's configuration becomes a spec, with an account.

Known are the Iceberg sink of Kafka Connect (properties, JSON, or Strimzi's KafkaConnector), a
command line of kafka-delta-ingest, and Flink SQL from Kafka into Iceberg or Delta.

Invariants:
- every option that was read is accounted for: mapped to a setting, left with a reason, or
  undecided, and then an entry of the spec, which is refused until somebody has decided;
- what a translation hands over, spec and account, is searched for passwords in addresses last, with
  the patterns that hide them in errors: whatever setting it is, a reference stands in their place.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from penstock.app.init.migrate.account import Migrated, Question, in_place_of_secret
from penstock.app.init.migrate.connect_sink import connect_sink
from penstock.app.init.migrate.delta_ingest import delta_ingest
from penstock.app.init.migrate.flink import flink
from penstock.spec.secrets import escaped, referring, without_password

_INGEST = re.compile(
    r"kafka-delta-ingest|\bingest\s+\S+\s+\S+.*--?(allowed_latency|app_id|kafka)\b"
)


def migrated(text: str) -> Migrated:
    """Translate a configuration. Raises InvalidError (P165) when it is none that is known."""
    if re.search(r"\bCREATE\s+(TEMPORARY\s+)?TABLE\b", text, re.IGNORECASE):
        found = flink(text)
    elif _INGEST.search(text.replace("\\\n", " ")):
        found = delta_ingest(text)
    else:
        found = connect_sink(text)
    spec = found.spec
    spec.setdefault("name", "migrated")
    spec["name"] = re.sub(r"[^a-z0-9_-]", "-", str(spec["name"]).lower()).strip("-")[:64]
    kafka = spec.setdefault("kafka", {})
    kafka.setdefault("brokers", "${env:BROKERS:-localhost:9092}")
    catalog = next(iter(spec["catalogs"]))
    spec.setdefault("quarantine", {"into": f"{catalog}.ops.quarantine"})
    order = ("name", "kafka", "records", "catalogs", "tables", "commit", "quarantine", "spark")
    found.spec = {key: spec[key] for key in order if key in spec}
    _take_passwords_out(found)
    return found


def incomplete(found: Migrated) -> dict[str, Any]:
    """Return the spec with an entry for each question that is left."""
    entries = [
        {"option": each.option, "value": each.value, "decide": each.decide}
        for each in found.questions()
    ]
    undecided = [{k: escaped(v) for k, v in entry.items() if v} for entry in entries]
    name, *rest = found.spec.items()
    return dict([name, *([("undecided", undecided)] if undecided else []), *rest])


def _take_passwords_out(found: Migrated) -> None:
    """Put references where passwords stand in addresses, and hide those in the account."""
    found.spec = _referring(found, found.spec, ())
    found.mapped = [(without_password(option), setting) for option, setting in found.mapped]
    found.left = [(without_password(option), why) for option, why in found.left]
    found.undecided = [_hidden(each) for each in found.undecided]


def _hidden(question: Question) -> Question:
    return replace(
        question,
        option=without_password(question.option),
        value=without_password(question.value),
        decide=without_password(question.decide),
    )


def _referring(found: Migrated, value: Any, path: tuple[str, ...]) -> Any:
    match value:
        case dict():
            return {key: _referring(found, each, (*path, str(key))) for key, each in value.items()}
        case list():
            return [_referring(found, each, path) for each in value]
        case str() if without_password(value) != value:
            reference, why = in_place_of_secret(f"{path[-1]}_password")
            found.leave(".".join(path), why)
            return referring(value, reference)
        case _:
            return value
