"""penstock.yaml becomes a frozen `Pipeline`, or all of its problems with file, line and column.

The Python twin is the same model: `Pipeline(name=…, tables=[Table(…)])`.

    problems, secrets    what is wrong and where; references, and the hiding of secrets
    text                 YAML with places, lines in which secrets are masked
    language             quantities, names, patterns and SQL expressions inside of a spec
    settings             the blocks of a spec as strict models
    checks               what must agree across them
    model                the whole: `Pipeline`
    load, paths, writing from a file to a pipeline, and back to YAML and JSON Schema
    routing, rules       which tables topics lead to; the rules that every ledger is stamped with
"""

from penstock.spec.load import Loaded, load, load_with_warnings, loads
from penstock.spec.model import Pipeline
from penstock.spec.paths import located
from penstock.spec.problems import Place, Problem, SpecError, render
from penstock.spec.routing.topics import Collision, Target, collisions, routes, tables_for
from penstock.spec.rules import rules_hash, rules_text, with_rules
from penstock.spec.secrets import ProcessSecrets
from penstock.spec.settings.catalogs import Catalog, DeltaCatalog, SqlCatalog
from penstock.spec.settings.records import Records, RegistrySettings
from penstock.spec.settings.sections import (
    CommitSettings,
    Kafka,
    LimitSettings,
    PendingSettings,
    QuarantineSettings,
    Security,
    SparkSettings,
    TopicPattern,
)
from penstock.spec.settings.table import SchemaPolicy, Table
from penstock.spec.writing import json_schema, to_yaml

__all__ = [
    "Catalog",
    "Collision",
    "CommitSettings",
    "DeltaCatalog",
    "Kafka",
    "LimitSettings",
    "Loaded",
    "PendingSettings",
    "Pipeline",
    "Place",
    "Problem",
    "ProcessSecrets",
    "QuarantineSettings",
    "Records",
    "RegistrySettings",
    "SchemaPolicy",
    "Security",
    "SparkSettings",
    "SpecError",
    "SqlCatalog",
    "Table",
    "Target",
    "TopicPattern",
    "collisions",
    "json_schema",
    "load",
    "load_with_warnings",
    "loads",
    "located",
    "render",
    "routes",
    "rules_hash",
    "rules_text",
    "tables_for",
    "to_yaml",
    "with_rules",
]
