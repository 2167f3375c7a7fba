"""From pydantic's errors to problems in our words: what was read, what was expected, nearest name.

Invariants: every pydantic error becomes at most one problem; a value at a secret's path is never
quoted; tags of unions, written `<tag>` in our models, never show in a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import KeyPath, Problem, listed, nearest, shown
from penstock.spec.secrets import may_hold_secret

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "settings by name",
    "mapping_type": "settings by name",
    "model_type": "settings by name",
    "model_attributes_type": "settings by name",
    "none_required": "nothing",
}
_QUOTED = re.compile(r"'([^']*)'")


def problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Translate all of pydantic's errors over a model, in its order."""
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # only what is right was counted; each wrong entry has its own error
        yield _problem(details, model)


def _settings_at(model: type[BaseModel], path: KeyPath) -> dict[str, FieldInfo]:
    models: list[type[BaseModel]] = [model]
    for step in path:
        found = [_fields(each).get(str(step)) for each in models]
        inner = [_models_in(field.annotation) for field in found if field is not None]
        models = [each for group in inner for each in group] or models
    return {name: field for each in models for name, field in _fields(each).items()}


def _problem(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    loc, kind = details["loc"], details["type"]
    marks = ("<>", "[]")  # of unions' tags, and of `[key]`
    path = tuple(s for s in loc if not (isinstance(s, str) and s[:1] + s[-1:] in marks))
    context: Mapping[str, Any] = details.get("ctx", {})
    on_key = loc[-1:] == ("[key]",)
    error = context.get("error")
    if isinstance(error, MalformedError):
        path = (*path, *error.below)
        return Problem(path, error.code, error.message, error.hint, on_key=on_key)
    match kind:
        case "extra_forbidden":
            return _unknown(path, _settings_at(model, path[:-1]))
        case "missing":
            field = _settings_at(model, path[:-1]).get(str(path[-1]))
            example = field.examples[0] if field is not None and field.examples else "…"
            fact = "this required setting is missing"
            return Problem(path, "P105", fact, f"add  {path[-1]}: {example}", on_key=True)
        case "literal_error":
            known = _QUOTED.findall(str(context["expected"]))
            near = nearest(details["input"], known) if isinstance(details["input"], str) else ""
            did_you_mean = f". Did you mean '{near}'?" if near else ""
            fact = f"expected {listed(known)}, read {_read(path, details['input'])}{did_you_mean}"
            return Problem(path, "P107", fact)
        case _ if kind in _KINDS:
            return _wrong_kind(path, details["input"], _KINDS[kind])
        case _:
            return Problem(path, "P108", _out_of_bounds(path, details), on_key=on_key)


def _unknown(path: KeyPath, known: Mapping[str, FieldInfo]) -> Problem:
    if path[-1] == "<<":
        fact = "merge keys are not part of YAML 1.2"
        return Problem(path, "P104", fact, "write the settings out", on_key=True)
    if path[-1] in known:
        fact = f"{shown(path[-1])} belongs to another kind of  {path[-2]}  than what is beside it"
        return Problem(path, "P104", fact, "keep the settings of one kind", on_key=True)
    near = nearest(str(path[-1]), known)
    message = f"unknown setting. Did you mean '{near}'?" if near else "unknown setting"
    hint = "" if near or not known else f"known here: {listed(sorted(known), most=40)}"
    return Problem(path, "P104", message, hint, on_key=True)


def _wrong_kind(path: KeyPath, value: object, expected: str) -> Problem:
    message = f"expected {expected}, read {_read(path, value)}"
    hint = ""
    if expected == "text" and isinstance(value, int | float):
        hint = "put quotes around it"
    if expected == "text" and isinstance(value, dict) and [*value] == ["pattern"]:
        of_tables = f"write the regular expression itself:  {path[-1]}: '…'"
        hint = "write the name of one topic" if path[0] == "publish" else of_tables
    if value is None and expected == "settings by name":
        hint = "remove it, or write its settings below"
    if expected == "a list" and isinstance(value, str):
        hint = "write it as a list: [ … ]"
    return Problem(path, "P106", message, hint)


def _read(path: KeyPath, value: object) -> str:
    secret = may_hold_secret(path)
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number" if secret else f"the number {shown(value)}"
        case str():
            return "text" if secret else shown(value)
        case list() | tuple():
            return "a list"
        case dict():
            return "settings by name"
        case _:
            return f"a {type(value).__name__}"


def _out_of_bounds(path: KeyPath, details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "greater_than_equal":
            return f"expected {context['ge']} or more, read {_read(path, details['input'])}"
        case "less_than_equal":
            return f"expected {context['le']} or less, read {_read(path, details['input'])}"
        case "too_short" | "string_too_short":
            return "expected it not to be empty"
        case "too_long":
            count = context["actual_length"] or len(details["input"])  # mappings have none
            return f"expected at most {context['max_length']}, read {count}"
        case _:
            return details["msg"]


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
