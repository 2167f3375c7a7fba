"""`penstock members` and `penstock handover`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, say
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec

if TYPE_CHECKING:
    from penstock.app.members import MemberStatus


def members(
    spec: Annotated[Spec, Parameter(help="The spec of the pipeline.")] = SPEC, *, json: Json = False
) -> int:
    """Show who owns a pipeline, and who stands by for it.

    Each stand-by is ready, or not ready with the reason: what would keep it from taking over.

    Example: penstock members shop.yaml
    """
    from penstock.app import members as app

    found = app.members(load_spec(spec))
    if json:
        print_json({"members": found})
        return 0
    for each in found:
        print_line(_text(each))
    if not found:
        print_line("nobody owns the pipeline, and nobody stands by")
    return 0


def handover(
    spec: Annotated[Spec, Parameter(help="The spec of the pipeline.")] = SPEC,
    *,
    to: str = "",
    wait: str = "60s",
    json: Json = False,
) -> int:
    """Let a stand-by take over from the owner, which finishes its epoch first and then stands by.

    Its undo is another hand-over. An owner that was started without `--standby` ends instead.

    Example: penstock handover shop.yaml --to host-b

    Parameters
    ----------
    to
        The host whose stand-by is to take over; any that is ready by default.
    wait
        How long to wait for the new owner, such as 30s or 2m.
    """
    from penstock.app import members as app
    from penstock.app.assembly.process import SystemClock
    from penstock.app.pause import duration_of

    seconds = duration_of(wait) / 1000
    former, now = app.handover(
        load_spec(spec),
        host=to,
        wait_seconds=seconds,
        clock=SystemClock(),
        wait=lambda: say("asked the owner to give way"),
    )
    if json:
        print_json({"former": former, "owner": now})
    else:
        print_line(
            f"{now.host}, pid {now.pid}, owns the pipeline; before: {former.host}, pid {former.pid}"
        )
    return 0


def _text(member: MemberStatus) -> str:
    trouble = f"  {member.trouble}" if member.trouble else ""
    seen = f"seen {member.seen_seconds:.1f} s ago"
    return f"{member.state:<10}{member.host}, pid {member.pid}, {member.version}, {seen}{trouble}"
