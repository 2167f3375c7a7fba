"""`penstock init --from-config`: another system's configuration becomes a spec, with an account.

Known are the Iceberg sink and some sources of Kafka Connect (properties, JSON, or Strimzi's
KafkaConnector), a command line of kafka-delta-ingest, and Flink SQL from Kafka into Iceberg or
Delta.

Invariants:
- every option that was read is accounted for (account.py);
- what a translation hands over, spec and account, is searched for passwords in addresses last, with
  the patterns that hide them in errors: in any setting, a reference replaces them.
"""

from __future__ import annotations

import re
from dataclasses import asdict, astuple
from functools import partial
from typing import Any

from penstock.app.init.migrate.account import Migrated, Question
from penstock.app.init.migrate.connect_config import options_of
from penstock.app.init.migrate.connect_sink import connect_sink
from penstock.app.init.migrate.connect_source import connect_source, is_source
from penstock.app.init.migrate.delta_ingest import delta_ingest
from penstock.app.init.migrate.flink import flink
from penstock.spec.paths import with_leaves
from penstock.spec.problems import KeyPath
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
        options = options_of(text)
        found = connect_source(options) if is_source(options) else connect_sink(options)
    spec = found.spec
    name = str(spec.get("name", "migrated")).lower()
    spec["name"] = re.sub(r"[^a-z0-9_-]", "-", name).strip("-")[:64]
    spec.setdefault("kafka", {}).setdefault("brokers", "${env:BROKERS:-localhost:9092}")
    if "tables" in spec:
        catalog = next(iter(spec["catalogs"]))
        spec.setdefault("quarantine", {"into": f"{catalog}.ops.quarantine"})
    order = ("name", "kafka", "records", "catalogs", "tables", "commit", "quarantine", "publish")
    found.spec = {key: spec[key] for key in (*order, "publishing", "spark") if key in spec}
    _take_passwords_out(found)
    return found


def incomplete(found: Migrated) -> dict[str, Any]:
    """Return the spec with an entry for each question that is left."""
    undecided = [
        {name: escaped(text) for name, text in asdict(each).items() if text}
        for each in found.questions()
    ]
    name, *rest = found.spec.items()
    return dict([name, *([("undecided", undecided)] if undecided else []), *rest])


def _take_passwords_out(found: Migrated) -> None:
    found.spec = with_leaves(found.spec, partial(_referring, found))
    found.mapped = [(without_password(option), setting) for option, setting in found.mapped]
    found.unmapped = [(without_password(option), why) for option, why in found.unmapped]
    found.undecided = [Question(*map(without_password, astuple(each))) for each in found.undecided]


def _referring(found: Migrated, value: Any, path: KeyPath) -> Any:
    if not isinstance(value, str) or without_password(value) == value:
        return value
    names = [step for step in path if isinstance(step, str)]
    return referring(value, found.secret(".".join(names), f"{names[-1]}_password"))
