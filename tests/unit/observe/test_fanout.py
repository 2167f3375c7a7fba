from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event, TableCreated
from penstock.observe.fanout import Observers


class Ear:
    def __init__(self, name: str, heard: list[tuple[str, object]]) -> None:
        self.name = name
        self.heard = heard

    def __call__(self, event: Event) -> None:
        self.heard.append((self.name, event))

    def passed(self, point: CrashPoint) -> None:
        self.heard.append((self.name, point))


def test_everybody_hears_everything_in_order() -> None:
    heard: list[tuple[str, object]] = []
    created = TableCreated("lake.a", 3)
    observers = Observers(Ear("log", heard), Observers(Ear("board", heard)))

    observers(created)
    observers.passed(CrashPoint.COMMIT_BEFORE)

    assert [
        ("log", created),
        ("board", created),
        ("log", CrashPoint.COMMIT_BEFORE),
        ("board", CrashPoint.COMMIT_BEFORE),
    ] == heard


def test_nobody_may_listen() -> None:
    Observers()(TableCreated("lake.a", 3))
