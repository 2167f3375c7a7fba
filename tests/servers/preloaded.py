"""What the server of `warm` imports before it forks: all that a run without Spark needs."""

from __future__ import annotations

import pytest  # noqa: F401  a child looks at its parent's main module

import penstock.app.audit
import penstock.app.run
import penstock.app.worker
import penstock.cli.audit
import penstock.cli.run
import penstock.connectors.delta.writer
import penstock.connectors.iceberg.writer
import penstock.connectors.kafka.reader
import penstock.connectors.sql.store
import penstock.engines.inline
import penstock.observe.status  # noqa: F401
