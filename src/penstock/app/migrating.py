"""`penstock init --from-config`: another system's configuration becomes a spec, with an account.

Known are the Iceberg sink of Kafka Connect (properties or JSON), a command line of
kafka-delta-ingest, and Flink SQL from Kafka into Iceberg or Delta.

Invariant: every option that was read is accounted for: mapped to a setting, or left with a reason.
"""

from __future__ import annotations

import re

from penstock.app.connect_sink import connect_sink
from penstock.app.delta_ingest import delta_ingest
from penstock.app.flink import flink
from penstock.app.migrated import Migrated

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
    return found
