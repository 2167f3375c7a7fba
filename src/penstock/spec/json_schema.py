"""The JSON Schema of a spec, for editors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

READ = "The cluster, and the topics to read; a spec that only publishes names none."
SCHEMA_FILE = "penstock.schema.json"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec, for editors; it is committed as `penstock.schema.json`.

    A spec lands, publishes, or both: `anyOf` has what each of the two requires.
    """
    landing, publishing = (
        model.model_json_schema(by_alias=True, schema_generator=_Generating)
        for model in (Pipeline, Publications)
    )
    kafka, cluster = (each["properties"]["kafka"] for each in (landing, publishing))
    either = [{"$ref": each.pop("$ref")} for each in (kafka, cluster)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **landing,
        "title": "Penstock pipeline",
        "$defs": {**publishing["$defs"], **landing["$defs"]},
        "properties": {
            **landing["properties"],
            "kafka": {**kafka, "anyOf": either, "description": READ},
            **{name: publishing["properties"][name] for name in ("publish", "publishing")},
        },
        "required": [each for each in landing["required"] if each in publishing["required"]],
        "anyOf": [{"required": each["required"]} for each in (landing, publishing)],
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
