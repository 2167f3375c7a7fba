import pytest


class StillClock:
    """A clock that moves only when advanced."""

    def __init__(self) -> None:
        self.ms = 1_763_721_600_000  # 2025-11-21 10:40:00 UTC

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def wait(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()
