"""Each rule finds a planted fault, and nothing in the tree."""

import pytest

UNTOLD = '''
def run(spec, *, fast):
    """Run.

    Example: run

    Parameters
    ----------
    spec
        The spec.
    """
'''
PLANTED = {
    "too_long": [
        ("penstock/rows/long.py", "x = 1\n" * 401, "penstock/rows/long.py: 401 lines"),
        (
            "penstock/rows/long.py",
            "def work():\n" + "    x = 1\n" * 60,
            "penstock/rows/long.py:1: work has 61 lines",
        ),
    ],
    "nameless": [
        ("penstock/rows/utils.py", "", "penstock/rows/utils.py: say what it holds"),
        ("penstock/common/a.py", "", "penstock/common/a.py: say what it holds"),
    ],
    "promises": [("a.py", "x = 1  # TODO: more", "a.py:1: x = 1  # TODO: more")],
    "without_docstring": [
        ("a.py", "x = 1", "a.py:1: the module"),
        ("a.py", '"""A."""\ndef work(): ...', "a.py:2: work"),
        ("a.py", '"""A."""\nclass Work: ...', "a.py:2: Work"),
        ("a.py", '"""A."""\nclass Work:\n    """B."""\n    def go(self): ...', "a.py:4: go"),
        ("a.py", '"""A."""\nif X:\n    def go(): ...', "a.py:3: go"),
        ("a.py", '"""A."""\ntry:\n    pass\nexcept E:\n    class Go: ...', "a.py:5: Go"),
    ],
    "parameters_untold": [
        (
            "penstock/cli/a.py",
            UNTOLD,
            "penstock/cli/a.py:2: run fast",
        ),
    ],
    "commits_elsewhere": [
        (
            "penstock/landing/a.py",
            "def f(table): table.commit(1)",
            "penstock/landing/a.py:1: table.commit",
        ),
        (
            "penstock/app/a.py",
            "class A:\n    def f(self): self.catalog.create(1)",
            "penstock/app/a.py:2: self.catalog.create",
        ),
    ],
    "transactions_elsewhere": [
        (
            "penstock/landing/a.py",
            "def f(terms): terms.end('id', 1)",
            "penstock/landing/a.py:1: terms.end",
        ),
        (
            "penstock/commit/a.py",
            "class A:\n    def f(self): self.ledger.append('id', term=1, entries=[])",
            "penstock/commit/a.py:2: self.ledger.append",
        ),
    ],
    "imports_of_testing": [
        (
            "penstock/app/a.py",
            "import penstock.testing",
            "penstock/app/a.py:1: penstock.testing",
        ),
        (
            "penstock/app/a.py",
            "def f():\n    from penstock.testing.prepared import origin",
            "penstock/app/a.py:2: penstock.testing.prepared.origin",
        ),
    ],
    "worldly": [
        ("penstock/core/a.py", "import time", "penstock/core/a.py:1: time"),
        ("penstock/rows/a.py", "from random import choice", "penstock/rows/a.py:1: random.choice"),
        (
            "penstock/commit/a.py",
            "at = datetime.now(UTC)",
            "penstock/commit/a.py:1: datetime.now",
        ),
        (
            "penstock/commit/a.py",
            "at = datetime.datetime.now()",
            "penstock/commit/a.py:1: datetime.datetime.now",
        ),
        ("penstock/landing/a.py", "id = uuid4()", "penstock/landing/a.py:1: uuid4"),
    ],
    "catch_alls": [
        (
            "penstock/rows/a.py",
            "try: f()\nexcept Exception: pass",
            "penstock/rows/a.py:2: Exception",
        ),
        (
            "penstock/rows/a.py",
            "try: f()\nexcept (OSError, Exception): pass",
            "penstock/rows/a.py:2: (OSError, Exception)",
        ),
        ("penstock/rows/a.py", "try: f()\nexcept: pass", "penstock/rows/a.py:2: "),
    ],
}

ALLOWED = {
    "too_long": [("a.py", "x = 1\n" * 400)],
    "nameless": [("penstock/rows/decode.py", "")],
    "promises": [("a.py", "mastodon = 1")],
    "without_docstring": [("a.py", '"""A."""\nclass _Own:\n    def go(self): ...\ndef _f(): ...')],
    "commits_elsewhere": [
        ("penstock/commit/land.py", "def f(table): table.commit(1)"),
        ("penstock/connectors/sql/file.py", "def f(connection): connection.commit()"),
        ("penstock/landing/a.py", "class A:\n    def f(self): self.create(1)"),
    ],
    "transactions_elsewhere": [
        ("penstock/commit/transactions.py", "def f(terms): terms.end('id', 1)"),
        ("penstock/rows/a.py", "def f(match, file): match.end(1); file.append('text')"),
    ],
    "imports_of_testing": [("penstock/testing/a.py", "import penstock.testing.b")],
    "worldly": [
        ("penstock/app/assembly/process.py", "import time\nimport random"),
        ("penstock/core/a.py", "from datetime import datetime\nat = datetime.fromtimestamp(1)"),
    ],
    "catch_alls": [
        ("penstock/app/a.py", "try: f()\nexcept Exception: pass"),
        ("penstock/rows/a.py", "try: f()\nexcept BaseException:\n    raise"),
        ("penstock/rows/a.py", "try: f()\nexcept ValueError: pass"),
    ],
}


@pytest.mark.parametrize(
    ("rule", "name", "text", "finding"),
    [(rule, *fault) for rule, faults in PLANTED.items() for fault in faults],
)
def test_a_rule_finds_what_was_planted(rules, rule, name, text, finding) -> None:
    assert finding in getattr(rules, rule)([rules.module(name, text)])


@pytest.mark.parametrize(
    ("rule", "name", "text"), [(rule, *fine) for rule, them in ALLOWED.items() for fine in them]
)
def test_a_rule_finds_nothing_where_nothing_is(rules, rule, name, text) -> None:
    assert [] == getattr(rules, rule)([rules.module(name, text)])


@pytest.mark.parametrize("rule", PLANTED)
def test_the_tree_keeps_the_rule(rules, modules, rule) -> None:
    assert len(modules) > 20
    assert [] == getattr(rules, rule)(modules)
