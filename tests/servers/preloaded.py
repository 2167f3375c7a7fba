"""What the server of `warm` imports before it forks: all that a run without Spark needs."""

from __future__ import annotations

import pytest  # noqa: F401  a child inspects its parent's main module

import penstock.app.assembly.worker
import penstock.app.inspect.audit
import penstock.app.run
import penstock.cli.audit
import penstock.cli.run
import penstock.connectors.delta.files.writer
import penstock.connectors.iceberg.write.writer
import penstock.connectors.kafka.librdkafka.reader
import penstock.connectors.sql.store
import penstock.engines.inline
import penstock.observe.status  # noqa: F401
