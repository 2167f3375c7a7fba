"""Every leadership against the contract of its port."""

from contextlib import closing
from dataclasses import replace

import pytest

from penstock.connectors.memory.leadership import MemoryLeadership, MemoryServer
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.sql import open_leadership, open_postgresql
from penstock.core.claims import Generation
from penstock.ports.leadership import Leadership
from penstock.ports.store import Owner, PendingStore
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.leadership import A, B, LeadershipContract


class TestMemoryLeadership(LeadershipContract):
    def setup_method(self):
        self.store = MemoryStore()
        self.server = MemoryServer(self.store, lambda: 5)

    def open_leadership(self, pipeline: str) -> Leadership:
        return MemoryLeadership(self.server, pipeline)

    def open_store(self) -> PendingStore:
        return self.store

    def cut(self, leadership: Leadership) -> None:
        leadership.close()


class TestPostgresqlLeadership(LeadershipContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgresql):
        return postgresql.database()

    @pytest.fixture(autouse=True)
    def database(self, postgresql, shared):
        self.server, self.name = postgresql, shared
        yield
        postgresql.execute("DROP SCHEMA IF EXISTS penstock CASCADE", shared)

    def open_leadership(self, pipeline: str) -> Leadership:
        return open_leadership(self._address, ProcessSecrets({}), pipeline)

    def open_store(self) -> PendingStore:
        return open_postgresql(self._address, ProcessSecrets({}))

    def cut(self, leadership: Leadership) -> None:
        backend = leadership.look(A, wants_lock=True).session.backend
        with closing(self.server.connect(self.name)) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])

    @property
    def _address(self) -> str:
        return self.server.address(self.name)

    def test_nothing_waits_in_the_server_between_two_looks(self, one, other):
        one.look(A, wants_lock=True)
        other.look(B, wants_lock=True)

        with closing(self.server.connect(self.name)) as connection:
            found = connection.execute(
                "SELECT state, backend_xmin IS NULL, xact_start IS NULL FROM pg_stat_activity "
                "WHERE application_name = 'penstock-leadership'"
            ).fetchall()
        assert [("idle", True, True)] * 2 == found

    def test_a_schema_that_was_dropped_is_there_again_at_the_next_look_but_one(self, one):
        one.look(A, wants_lock=True)
        self.server.execute("DROP SCHEMA penstock CASCADE", self.name)

        with pytest.raises(Exception, match="lost"):
            one.look(A, wants_lock=True)
        assert one.look(A, wants_lock=True).is_locked

    def test_members_of_long_ago_are_forgotten_but_for_the_last_owner(self, one, other):
        one.look(A, wants_lock=True)
        other.look(B, wants_lock=False)
        with closing(self.open_store()) as store:
            owner = Owner("line/a1", "host-a", 7)
            span = {"now_ms": 1, "alive_until_ms": 2}
            store.claim("shop", owner, above=Generation(0), takeover=False, **span)
        self.server.execute("UPDATE penstock.members SET seen_ms = 1", self.name)

        with closing(self.open_leadership("shop")) as later:
            later.look(replace(B, id="c3"), wants_lock=False)
            assert ["c3", "a1"] == [each.member.id for each in later.roll().signs]
