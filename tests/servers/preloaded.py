"""What the server of `warm` imports before it forks: all that a command without Spark needs."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import pytest  # noqa: F401  a child inspects its parent's main module

import penstock.app
import penstock.cli
import penstock.connectors
import penstock.engines.inline
import penstock.observe.status

for package in (penstock.app, penstock.cli, penstock.connectors):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)
gc.freeze()  # no child's collector writes to the pages that it shares with all others
