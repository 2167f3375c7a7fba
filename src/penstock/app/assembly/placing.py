"""How rows get into the files of a table, by its rule and by what its connector offers."""

from __future__ import annotations

from penstock.core.errors import InvalidError
from penstock.ports.connectors import TableConnector
from penstock.ports.writers import Distribution, Placing
from penstock.spec.settings.table import Table


def placing_of(rule: Table, connector: TableConnector) -> Placing:
    """Return how a rule's rows get into files. Raises InvalidError (P867) where they are to be
    exchanged, and the connector has no exchange.
    """
    distribution = Distribution(rule.write.distribution)
    if distribution is Distribution.HASH and connector.open_exchange is None:
        kinds = ", ".join(sorted(connector.catalog_types))
        raise InvalidError(
            f"{rule.into}: no rows are exchanged by partition in tables of {kinds}",
            code="P867",
            hint="remove  distribution: hash : each task writes a file for each partition then",
        )
    return Placing(distribution, is_sorted=rule.write.sort == "at_write")
