"""Pipelines written as YAML that loads to the same pipeline, to compare the twin with."""

import re

import yaml

from penstock.spec.paths import is_resolved_later, with_leaves
from penstock.spec.secrets import escaped
from penstock.spec.settings.fields import REVEALED

_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")


def to_yaml(pipeline):
    data = pipeline.model_dump(mode="json", context=REVEALED, exclude_defaults=True)
    return yaml.dump(
        with_leaves(data, _escaped),
        Dumper=_Quoting,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )


class _Quoting(yaml.SafeDumper):
    """Quotes all but plain words, so that no version of YAML takes a text for something else."""

    def ignore_aliases(self, data):  # noqa: ARG002  # the parent's signature
        return True


def _quoted(dumper, text):
    style = None if _BARE.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoting.add_representer(str, _quoted)


def _escaped(value, path):
    return escaped(value) if isinstance(value, str) and not is_resolved_later(path) else value
