"""Holes F1, F2, C2, D3, and races, on real tables."""

import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from tests.integration.delta.lake import CHAIN, Lake, at, origin

from penstock.core.commits import commit_id_of
from penstock.core.decide import AlreadyLanded, Commit, Fenced, Superseded, decide
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.core.offsets import Offset, span
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, claim, orders, positions, prepared


@pytest.fixture(params=["cold", "warm"])
def lake(tmp_path, request):
    lake = Lake(tmp_path, warm=request.param == "warm")
    lake.create()
    return lake


def test_f1_a_commit_whose_reply_was_lost_is_found_by_another_run(lake):
    lake.land({0: (0, 5)}, held=claim(1))
    state = lake.state()
    again = lake.prepare(state, {0: (0, 5)}, held=claim(2), attempt="a2")

    assert AlreadyLanded(ours=False) == decide(again, state.landed, claim(2))


def test_f2_a_rewound_source_lands_only_what_is_new(lake):
    lake.land({0: (0, 5)})
    state = lake.state()

    assert AlreadyLanded(ours=False) == decide(
        lake.prepare(state, {0: (0, 3)}), state.landed, claim()
    )
    assert Superseded() == decide(lake.prepare(state, {0: (3, 8)}), state.landed, claim())
    assert Commit() == decide(lake.prepare(state, {0: (5, 8)}), state.landed, claim())


def test_c2_a_stale_coordinator_is_refused_twice_over(lake):
    lake.land({0: (0, 5)}, held=claim(1))
    stale = lake.state()
    late = lake.prepare(stale, {0: (5, 7)}, held=claim(1))
    lake.land({0: (5, 9)}, held=claim(2))
    with pytest.raises(ConflictError):
        lake.table.commit(stale, late, retain=25)
    fresh = lake.state()
    zombie = lake.prepare(fresh, {0: (9, 12)}, held=claim(1))

    assert Fenced(by=claim(2)) == decide(zombie, fresh.landed, claim(1))
    assert list(range(9)) == lake.ids()


def test_d3_two_topics_with_the_same_partition_numbers_keep_their_own_offsets(lake):
    state = lake.state()
    first, second = at("topic-one"), at("topic-two")
    covered = {first: span(0, 3), second: span(40, 42)}
    commit = replace(
        prepared(CHAIN, {}, files=lake.write(state, orders({0: (0, 5)})), uuid=state.uuid),
        progress=covered,
        origins={first: Offset(0), second: Offset(40)},
        commit_id=commit_id_of(CHAIN, state.uuid, 0, covered),
        schema_id=state.schema_id,
    )
    lake.table.commit(state, commit, retain=25)

    assert {**positions({0: 0}), first: 3, second: 42} == lake.state().landed.offsets
    assert 3 == lake.handle.transaction_version("penstock/shop/0/topic-one/0")
    assert 42 == lake.handle.transaction_version("penstock/shop/0/topic-two/0")


def test_after_a_foreign_append_the_table_is_examined_again_and_ours_lands_once(lake):
    state = lake.state()
    commit = lake.prepare(state, {0: (0, 3)})
    for _ in range(5):
        lake.foreign_append()
    with pytest.raises(ConflictError):
        lake.table.commit(state, commit, retain=25)

    assert "6" == lake.table.commit(lake.state(), commit, retain=25)
    assert [-1] * 5 + [0, 1, 2] == lake.ids()


def test_of_two_coordinators_one_lands_in_every_round_whatever_other_writers_do(lake):
    for turn in range(8):
        tables = [lake.open().load(lake.name) for _ in range(2)]
        states = [table.state(CHAIN) for table in tables]
        commits = [
            lake.prepare(state, {0: (turn * 2, turn * 2 + 2)}, held=claim(1, f"owner-{number}"))
            if (turn + number) % 3
            else prepared(CHAIN, {0: (turn * 2, turn * 2 + 2)}, uuid=state.uuid)
            for number, state in enumerate(states)
        ]
        together = Barrier(3)

        def land(number, tables=tables, states=states, commits=commits):
            try:
                return tables[number].commit(states[number], commits[number], retain=25) and "ok"
            except ConflictError:
                return "conflict"

        def race(number, together=together, land=land):
            together.wait()
            return land(number) if number < 2 else lake.foreign_append() or "foreign"

        with ThreadPoolExecutor(3) as pool:
            outcomes = list(pool.map(race, range(3)))
        assert outcomes.count("ok") <= 1
        if "ok" not in outcomes:  # the other writer was first
            states[0] = tables[0].state(CHAIN)
            assert "ok" == land(0)
        assert positions({0: turn * 2 + 2}) == lake.state().landed.offsets

    rows = [number for number in lake.ids() if number >= 0]
    assert len(set(rows)) == len(rows)


def test_six_creators_make_one_table(tmp_path):
    lake = Lake(tmp_path)
    together = Barrier(6)

    def create(number):
        catalog = lake.open()
        ledger = origin(CHAIN, {0: number}, claim(1, f"owner-{number}"))
        together.wait()
        return catalog.create(lake.name, TableDefinition(ORDERS), [ledger]).state(CHAIN)

    with ThreadPoolExecutor(6) as pool:
        states = list(pool.map(create, range(6)))

    assert 1 == len({state.uuid for state in states})
    assert 1 == len({str(state.landed) for state in states})
    assert ["00000000000000000000.json"] == [name for name in lake.log() if name[0] == "0"]


def test_two_pipelines_and_their_quarantines_share_a_table_without_touching(lake):
    chains = [replace(CHAIN, name=name) for name in ("shop", "shop/lake.b.a", "shop/0/x", "shop/*")]
    for number, chain in enumerate(chains[1:], 1):
        state = lake.state(chain)
        commit = prepared(chain, {0: (number, number + 1)}, uuid=state.uuid, origins={0: number})
        lake.table.commit(state, commit, retain=25)

    assert [positions({0: n}) for n in (0, 2, 3, 4)] == [
        lake.state(chain).landed.offsets for chain in chains
    ]
    lake.foreign_append()
    lake.clean_up_log()
    assert [positions({0: n}) for n in (0, 2, 3, 4)] == [
        lake.state(chain).landed.offsets for chain in chains
    ]


def test_a_commit_that_fails_in_the_middle_is_in_doubt_and_then_found_out(lake):
    """A file size limit of the process replaces the full disk: the log entry is not written."""
    state = lake.state()
    commit = lake.prepare(state, {0: (0, 3)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(OutcomeUnknownError) as caught:
            lake.table.commit(state, commit, retain=25)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    state = lake.state()

    assert "P433" == caught.value.code
    assert Commit() == decide(commit, state.landed, claim())
    lake.table.commit(state, commit, retain=25)
    assert [0, 1, 2] == lake.ids()
