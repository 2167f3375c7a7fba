"""What the SQLite store does beyond the contract: files, locks, damage, dead owners, kills."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from penstock.app.assembly.process import this_owner
from penstock.connectors import sql
from penstock.connectors.sql.addresses import path_of
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.owners import has_ended, started_ms
from penstock.connectors.sql.store import SqlStore
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.store import Owner
from penstock.testing.contracts.store import commit_of, owner, take


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "shop.db"


@pytest.fixture
def store(path):
    opened = SqlStore(StoreFile(path, lock_wait_seconds=0.05))
    yield opened
    opened.close()


class Plain:
    def resolve(self, text):
        return text.replace("${env:STATE}", "/var/state")


def refusal(kind, code, act):
    with pytest.raises(kind) as refused:
        act()
    assert (code, True) == (refused.value.code, bool(refused.value.hint))
    return refused.value.message


# Addresses.


def test_an_address_names_a_file():
    assert "state/shop.db" == str(path_of("sqlite:///state/shop.db"))
    assert "/var/state/shop.db" == str(path_of("sqlite:////var/state/shop.db"))


@pytest.mark.parametrize(
    "address", ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", "shop.db"]
)
def test_an_address_without_a_file_is_refused(address):
    refusal(InvalidError, "P508", lambda: path_of(address))


def test_the_connector_opens_a_store_and_creates_nothing_yet(tmp_path):
    store = sql.sqlite.open_store(f"sqlite:///{tmp_path}/a/b.db", Plain())

    assert {"sqlite"} == sql.sqlite.schemes
    assert store.holding("shop") is None
    assert [] == list(tmp_path.iterdir())


def test_importing_the_connector_imports_no_library():
    script = (
        "import sys, penstock.connectors.sql; "
        "print([m for m in ('sqlalchemy', 'sqlite3', 'psutil') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()


# Files.


def test_directories_are_made_by_the_first_claim(store, path):
    take(store)

    assert path.exists()
    assert ["shop.db"] == [each.name for each in path.parent.iterdir() if each.stat().st_size]


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = SqlStore(StoreFile(tmp_path / "file" / "shop.db"))
    message = refusal(InvalidError, "P506", lambda: take(store))

    assert "shop.db" in message


def test_a_directory_in_place_of_the_file_is_refused(path, store):
    path.mkdir(parents=True)
    refusal(InvalidError, "P506", lambda: take(store))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(store, path):
    path.parent.mkdir()
    path.parent.chmod(0o500)
    refusal(InvalidError, "P506", lambda: take(store))


def test_a_file_that_is_no_database_is_refused(store, path):
    path.parent.mkdir()
    path.write_text("no database, but longer than its header " * 20)
    refusal(InvalidError, "P507", lambda: take(store))


def test_a_database_of_another_program_is_refused_and_left_alone(store, path):
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    refusal(InvalidError, "P507", lambda: take(store))

    assert before == path.read_bytes()


def test_a_newer_version_is_refused(store, path):
    take(store)
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 2")
    message = refusal(InvalidError, "P505", lambda: store.pending("shop"))

    assert "version 2" in message


def test_a_file_replaced_by_an_older_copy_is_noticed(store, path, tmp_path):
    held = take(store, "a")
    store.close()
    copy = path.read_bytes()
    held = take(store, "b")
    path.unlink()
    path.write_bytes(copy)
    refusal(UnavailableError, "P502", lambda: store.prepare("shop", held, [commit_of(0)], {}))


def test_a_file_emptied_in_place_is_noticed(store, path):
    held = take(store)
    os.truncate(path, 0)
    refusal(UnavailableError, "P502", lambda: store.prepare("shop", held, [commit_of(0)], {}))


def test_a_removed_directory_is_noticed_and_made_again_by_a_claim(store, path):
    held = take(store, "a")
    shutil.rmtree(path.parent)
    refusal(UnavailableError, "P502", lambda: store.prepare("shop", held, [commit_of(0)], {}))
    refusal(UnavailableError, "P502", lambda: store.pending("shop"))
    again = take(store, "b", takeover=False, above=held.generation)

    assert 2 == again.generation


def test_a_store_another_holds_locked_is_unavailable_and_then_goes_on(store, path):
    held = take(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refusal(UnavailableError, "P503", lambda: store.prepare("shop", held, [commit_of(0)], {}))
    other.execute("ROLLBACK")
    other.close()
    store.prepare("shop", held, [commit_of(0)], {})

    assert [commit_of(0)] == list(store.pending("shop"))


def test_reading_adds_no_table_that_came_later_and_waits_for_no_writer(store, path):
    take(store)
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("DROP TABLE servers")
    before = path.read_bytes()
    other.execute("BEGIN IMMEDIATE")

    assert ([], []) == (list(store.pending("shop")), list(store.pauses("shop")))
    other.execute("ROLLBACK")
    assert before == path.read_bytes()
    take(store, "b")
    assert [("shop",)] == other.execute("SELECT pipeline FROM servers").fetchall()
    other.close()


def test_a_full_disk_is_unavailable_and_leaves_nothing_half_done(store):
    held = take(store)
    store.prepare("shop", held, [commit_of(0)], {})
    engine = store._database._engine
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    many = [commit_of(start * 3, attempt="big") for start in range(100)]
    refusal(UnavailableError, "P504", lambda: store.prepare("shop", held, many, {}))

    assert [commit_of(0)] == list(store.pending("shop"))


def test_a_write_beyond_the_size_limit_is_unavailable(path):
    """The operating system refuses the write: a quota, or a file system that is full."""
    script = f"""
import resource, signal
from pathlib import Path
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.store import SqlStore
from penstock.core.errors import UnavailableError
from penstock.testing.contracts.store import commit_of, take
store = SqlStore(StoreFile(Path({str(path)!r})))
held = take(store)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))
try:
    store.prepare("shop", held, [commit_of(n * 3) for n in range(200)], {{}})
except UnavailableError as error:
    print(error.code, len(store.pending("shop")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert "P504 0" == done.stdout.strip()


# Owners.


def test_an_owner_on_another_host_may_be_alive():
    assert not has_ended(owner("a", host="elsewhere", pid=2**22 + 1))


def test_a_process_that_is_not_there_has_ended():
    assert has_ended(Owner("a", socket.gethostname(), ended_pid()))


def test_this_process_has_not_ended():
    assert not has_ended(Owner("a", socket.gethostname(), os.getpid()))
    assert not has_ended(this_process(started_ms(os.getpid())))


def test_a_process_that_got_the_pid_later_is_not_the_owner():
    assert has_ended(this_process(1_000))
    assert has_ended(this_process(started_ms(os.getpid()) - 10))


def test_rows_that_report_a_start_since_the_epoch_are_still_understood():
    since_epoch_ms = round(psutil.Process().create_time() * 1000)

    assert not has_ended(this_process(since_epoch_ms))
    assert has_ended(this_process(since_epoch_ms - 3_600_000))


@pytest.mark.skipif(sys.platform != "linux", reason="no other system counts from its boot")
@pytest.mark.parametrize("step_seconds", [-3_600, 3_600])
def test_a_clock_that_is_set_ends_no_owner(store, monkeypatch, step_seconds):
    create_time = psutil.Process.create_time
    take(store, by=this_process(this_owner().started_ms))
    monkeypatch.setattr(psutil.Process, "create_time", lambda it: create_time(it) + step_seconds)

    refusal(UnavailableError, "P510", lambda: take(store, "b", takeover=False))


def test_the_claim_of_a_process_that_was_killed_is_taken_at_once(store):
    dead = Owner("dead", socket.gethostname(), ended_pid())
    take(store, by=dead)

    assert 2 == take(store, "b", takeover=False).generation


def test_the_claim_of_a_living_process_is_refused_with_its_name(store):
    take(store, by=Owner("alive", socket.gethostname(), os.getpid()))
    message = refusal(UnavailableError, "P510", lambda: take(store, "b", takeover=False))

    assert f"host {socket.gethostname()}, pid {os.getpid()}" in message
    assert "2023-11-14 22:14:20 UTC" in message


def test_of_a_process_that_is_not_there_no_start_is_reported():
    with pytest.raises(psutil.NoSuchProcess):
        started_ms(ended_pid())


def this_process(started_ms):
    return Owner("a", socket.gethostname(), os.getpid(), started_ms)


def ended_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


# Kills.


def test_what_was_reported_before_a_kill_is_there_after_it(path):
    """A child prepares and says, and is killed in the middle of preparing on."""
    script = f"""
from pathlib import Path
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.store import SqlStore
from penstock.testing.contracts.store import commit_of, take
store = SqlStore(StoreFile(Path({str(path)!r})))
held = take(store)
for number in range(100_000):
    store.prepare("shop", held, [commit_of(number * 3, epoch=number)], {{}})
    print(number, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    reported = [int(child.stdout.readline()) for _ in range(50)][-1]
    child.send_signal(signal.SIGKILL)
    reported = max([reported, *map(int, child.communicate()[0].splitlines())])
    pending = SqlStore(StoreFile(path)).pending("shop")

    assert reported + 1 <= len(pending) <= reported + 2
    assert [replace(commit_of(n * 3), epoch=n) for n in range(len(pending))] == list(pending)
