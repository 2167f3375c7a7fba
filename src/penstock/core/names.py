"""Names as readers compare them that are blind to case.

Readers differ: Spark finds a column by `toLowerCase` and a member of a struct by
`equalsIgnoreCase`, its Parquet reader, Delta and Iceberg go by `toLowerCase`, and DuckDB by ASCII
alone. Here two names are one as soon as they are for one of them, so that names that differ here
differ everywhere.

Source: `java.lang.String`; Unicode, "Default Case Folding". What Spark says of each letter is in
tests/integration/readers/test_names_of_columns.py.
"""

from __future__ import annotations

import re

_DOTLESS, _I = "\u0131", "i"
_DOTTED = re.compile("i\u0307+")


def folded(name: str) -> str:
    """Return a name without its case, equal for two names that some reader takes for one.

    It is Unicode's folding, but that an `i` without a dot, and one with two, are an `i`: they are
    where Java compares letter by letter in capitals.
    """
    if name.isascii():
        return name.lower()
    return _DOTTED.sub(_I, name.casefold().replace(_DOTLESS, _I))
