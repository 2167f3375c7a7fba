"""penstock.yaml becomes a frozen `Pipeline`, or all of its problems with file, line and column.

The Python twin is the same model: `Pipeline(name=…, tables=[Table(…)])`.

    words, notation            the small languages inside of a spec
    secrets, masks             references, and the hiding of secrets
    problems, findings         what is wrong, and how it is told
    fields, sections, catalogs the kinds of settings, and the blocks around tables
    model, checks              the whole, and what must agree in it
    routing, rules             which table a topic goes to, and what decides a record's fate
    yaml12, load, paths        from text to a pipeline
    writing                    from a pipeline to YAML and JSON Schema
"""

from penstock.spec.catalogs import Catalog, DeltaCatalog, SqlCatalog
from penstock.spec.load import Loaded, load, load_with_warnings, loads
from penstock.spec.model import Pipeline, SchemaPolicy, Table
from penstock.spec.paths import located
from penstock.spec.problems import Place, Problem, SpecError, render
from penstock.spec.records import Records, RegistrySettings
from penstock.spec.routing import Collision, Target, collisions, routes, tables_for
from penstock.spec.rules import rules_hash, rules_text, with_rules
from penstock.spec.secrets import ProcessSecrets
from penstock.spec.sections import (
    CommitSettings,
    Kafka,
    LimitSettings,
    PendingSettings,
    QuarantineSettings,
    Security,
    SparkSettings,
    TopicPattern,
)
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
