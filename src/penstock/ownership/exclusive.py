"""Own a pipeline for a while to change it by hand: as a run does, so that no run lands beside it.

Invariants:
- the claim is above all that any ledger has seen, and it is refused while another owner is alive;
- whatever ends the change, the pipeline is released.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from penstock.core.claims import Claim
from penstock.core.errors import PenstockError
from penstock.ownership.claim import ClaimContext, PipelineClaim


@contextmanager
def exclusive_claim(
    context: ClaimContext, seen: Collection[Claim], *, takeover: bool = False
) -> Iterator[PipelineClaim]:
    """Claim a pipeline, above the claims that ledgers have seen, and release it in the end.

    Raises UnavailableError (P510) while another owner is alive, unless `takeover`.
    """
    claim = PipelineClaim(context)
    try:
        claim.acquire(seen, takeover=takeover)
        yield claim
    finally:
        claim.close()
        with suppress(PenstockError):  # the pipeline may be another's by now; a claim is advisory
            claim.release()
