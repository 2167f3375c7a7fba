"""From a `Pipeline` to what others read: YAML that loads to the same pipeline, and JSON Schema.

Invariants: `loads(to_yaml(p), base=b) == located(p, b)`; only what differs from the defaults is
written. Literal secrets are written as they stand, for the text is the spec itself: to show a spec
to people there is `Pipeline.redacted`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import yaml
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from penstock.spec.model import Pipeline
from penstock.spec.paths import is_resolved_later, with_leaves
from penstock.spec.problems import KeyPath
from penstock.spec.secrets import escaped
from penstock.spec.settings.fields import REVEALED

_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
SCHEMA_FILE = "penstock.schema.json"


def to_yaml(pipeline: Pipeline) -> str:
    """Write a pipeline as a spec."""
    data = pipeline.model_dump(mode="json", context=REVEALED, exclude_defaults=True)
    header = f"# yaml-language-server: $schema=./{SCHEMA_FILE}\n"
    return header + yaml.dump(
        with_leaves(data, _escaped),
        Dumper=_Quoting,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec, for editors; it is committed as `penstock.schema.json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Pipeline.model_json_schema(by_alias=True, schema_generator=_Generating),
        "title": "Penstock pipeline",
    }


class _Generating(GenerateJsonSchema):
    """Writes defaults as people write them: sizes, durations and shares in words."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        result = super().model_schema(schema)
        for name, field in schema["cls"].model_fields.items():
            shown = result["properties"][field.alias or name]
            if isinstance(field.default, int | float) and shown.get("type") == "string":
                kind: Any = Annotated[field.annotation, *field.metadata]
                shown["default"] = TypeAdapter(kind).dump_python(field.default, mode="json")
        return result


class _Quoting(yaml.SafeDumper):
    """Quotes all but plain words, so that no version of YAML takes a text for something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the parent's signature
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _BARE.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoting.add_representer(str, _quoted)


def _escaped(value: Any, path: KeyPath) -> Any:
    return escaped(value) if isinstance(value, str) and not is_resolved_later(path) else value
