"""`penstock members` and `penstock handover`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, say
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_publications, load_spec, parts_of

if TYPE_CHECKING:
    from penstock.app.members import MemberStatus
    from penstock.spec.model import Pipeline
    from penstock.spec.publications import Publications

Claimed = Annotated[
    str | None,
    Parameter(
        help="A publication, by its name in the spec; default: the pipeline, or the only one."
    ),
]


@by_shard()
def members(name: Claimed = None, /, *, spec: Spec = SPEC, json: Json = False) -> int:
    """Show who owns a pipeline, or a publication, and who stands by for it.

    Each stand-by is ready, or not ready with the reason: what would keep it from taking over.

    Example: penstock members
    """
    from penstock.app import members as app

    found = app.members(*_claimed(spec, name))
    if json:
        print_json({"members": found})
        return 0
    for each in found:
        print_line(_text(each))
    if not found:
        print_line("nobody owns it, and nobody stands by")
    return 0


@by_shard()
def handover(
    name: Claimed = None,
    /,
    *,
    to: str = "",
    wait: str = "60s",
    spec: Spec = SPEC,
    json: Json = False,
) -> int:
    """Let a stand-by take over from the owner, which finishes its epoch first and then stands by.

    Its undo is another hand-over. An owner that was started without `--standby` ends instead.

    Example: penstock handover --to host-b

    Parameters
    ----------
    to
        The host whose stand-by is to take over; any that is ready by default.
    wait
        How long to wait for the new owner, such as 30s or 2m.
    """
    from penstock.app import members as app
    from penstock.app.assembly.process import SystemClock
    from penstock.spec.language.quantities import length_ms

    seconds = length_ms("--wait", wait) / 1000
    former, now = app.handover(
        *_claimed(spec, name),
        host=to,
        wait_seconds=seconds,
        clock=SystemClock(),
        asked=lambda: say("asked the owner to give way"),
    )
    if json:
        print_json({"former": former, "owner": now})
    else:
        print_line(f"{now.host}, pid {now.pid}, owns it; before: {former.host}, pid {former.pid}")
    return 0


def _claimed(path: Path, name: str | None) -> tuple[Pipeline | Publications, str]:
    """Return a spec, and as what its pipeline or one of its publications is claimed."""
    from penstock.app.publish import claim_named

    if name is None and parts_of(path).lands:
        pipeline = load_spec(path)
        return pipeline, pipeline.name
    loaded = load_publications(path)
    return loaded, claim_named(loaded, name)


def _text(member: MemberStatus) -> str:
    trouble = f"  {member.trouble}" if member.trouble else ""
    seen = f"seen {member.seen_seconds:.1f} s ago"
    return f"{member.state:<10}{member.host}, pid {member.pid}, {member.version}, {seen}{trouble}"
