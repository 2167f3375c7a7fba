"""`penstock init`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, say, show_error
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import parts_of
from penstock.cli.waiting import ERASE, waits_shown
from penstock.core.errors import InvalidError
from penstock.observe.formatting import number_of

if TYPE_CHECKING:
    from penstock.app.init.migrate.account import Migrated
    from penstock.app.init.rule import Rule
    from penstock.app.init.topics import SampledTopics


def init(
    spec: Annotated[Spec, Parameter(help="The file to write.")] = SPEC,
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: Literal["iceberg", "delta"] = "iceberg",
    topics: str | None = None,
    registry: str | None = None,
    from_config: Path | None = None,
    offsets: bool = False,
    name: str = "landing",
    json: Json = False,
) -> int:
    """Write a spec: from the topics of a cluster, or from another system's configuration.

    With --from, a sample of each topic's records shows formats, envelopes and types, and each rule
    is tested on it. Topics that begin with _ and those of Kafka Connect are left out.

    With --from-config, it reads the Iceberg sink of Kafka Connect, its sources of files, JDBC and
    MirrorMaker 2, a kafka-delta-ingest command line, and Flink SQL, and accounts for each option.
    An option that would move a start offset or change what lands needs your decision: until you
    decide, the spec is incomplete (P175) and init exits with 2. It copies no secrets and overwrites
    no file.

    Example: penstock init --from kafka://localhost:9092 --topics orders,payments

    Parameters
    ----------
    from_
        The cluster to read, as kafka://host:port.
    to
        The format of the tables.
    topics
        With --from: topics separated by commas, or a pattern between slashes: '/^shop/'.
    registry
        With --from: the address of the schema registry that the records use.
    from_config
        A file with another system's configuration.
    offsets
        With --from-config: start at the offsets the other system has reached. Stop it first.
    name
        The pipeline's name.
    """
    from penstock.app.init import draft as drafting

    only_topics = topics is not None or registry is not None
    _require_one(from_, from_config, only_topics=only_topics, only_config=offsets)
    folder = spec.absolute().parent
    if from_config is not None:
        text, migrated = drafting.translated(_read(from_config), base=folder if offsets else None)
        data, lines = _account(migrated)
    else:
        assert from_ is not None, "one of the two is given"
        with waits_shown(as_json=json) as observer:
            draft = partial(drafting.draft, progress=_progress, observer=observer)
            text, sampled = draft(from_, to, name, topics=topics, registry=registry)
        data, lines = _of_topics(sampled)
    drafting.keep(spec, text)
    drafting.keep_schema(folder)
    return _report(spec, data, lines, as_json=json)


def _require_one(
    from_: str | None, from_config: Path | None, *, only_topics: bool, only_config: bool
) -> None:
    if (from_ is None) == (from_config is None) or (only_config and from_config is None):
        raise InvalidError(
            "init takes one of --from and --from-config, and --offsets with the latter alone",
            code="P166",
            hint="penstock init --from kafka://localhost:9092 --to iceberg",
        )
    if only_topics and from_ is None:
        raise InvalidError(
            "--topics and --registry go with --from alone",
            code="P166",
            hint="penstock init --from kafka://localhost:9092 --topics orders,payments",
        )


def _report(spec: Path, data: dict[str, Any], lines: list[str], *, as_json: bool) -> int:
    from penstock.spec.load import load, load_publications

    problem = None
    try:
        (load if parts_of(spec).lands else load_publications)(spec)
    except InvalidError as error:
        problem = error
    code = 0 if problem is None else problem.exit_code
    if as_json:
        left = {} if problem is None else {"error": problem}
        print_json({"spec": str(spec), **data, "valid": problem is None, **left})
        return code
    say("\n".join(lines))
    if problem is None:
        print_line(f"{spec} is written; next:  penstock validate {spec}")
        return code
    show_error(problem, as_json=False)
    print_line(f"{spec} is written, and not complete: decide what is named above, then")
    print_line(f"  penstock validate {spec}")
    return code


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        say(f"{ERASE}sampled {done} of {of} topics", end)


def _of_topics(sampled: SampledTopics[Rule]) -> tuple[dict[str, Any], list[str]]:
    topics, names = sampled.topics, ("topic", "records", "sampled", "rejected", "excluded")
    data = {
        "topics": [{name: getattr(each, name) for name in names} for each in topics],
        "not_sampled": sampled.left,
    }
    lines = [f"{each.topic}: {_outcome(each)}" for each in topics]
    if sampled.left:
        lines.append(f"{number_of(sampled.left, 'more topic')} not sampled, and not in the spec")
    return data, lines


def _outcome(rule: Rule) -> str:
    if rule.excluded:
        return rule.excluded
    held = number_of(rule.records, "record")
    if not rule.rejected:
        return held
    codes = ", ".join(rule.rejected)
    refused = f"{sum(rule.rejected.values())} of {rule.sampled} sampled records do not fit"
    return f"{held}; {refused} ({codes}):  penstock explain {next(iter(rule.rejected))}"


def _account(found: Migrated) -> tuple[dict[str, Any], list[str]]:
    data = {
        "from": found.system,
        "mapped": [{"option": option, "setting": setting} for option, setting in found.mapped],
        "unmapped": [{"option": option, "reason": reason} for option, reason in found.unmapped],
        "undecided": found.questions(),
    }
    lines = [f"mapped    {option} → {setting}" for option, setting in found.mapped]
    lines += [f"unmapped  {option}: {reason}" for option, reason in found.unmapped]
    return data, lines + [f"decide    {each.option}" for each in found.questions()]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(
            f"{path} cannot be read: {error}", code="P165", hint=f"ls -l {path}"
        ) from error
