import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spec.language import quantities


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1.5s", 1500),
        (" 2 m ", 120_000),
    ],
)
def test_durations_are_read_in_words(text: str, milliseconds: int) -> None:
    assert milliseconds == quantities.duration_ms(text)


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-5s", "0s", "0.1ms", "5 minutes", "367d", "1e3s", "٣s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        quantities.duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8MB", 8_000_000),
        ("64MiB", 67_108_864),
        ("1.5GB", 1_500_000_000),
        ("100 B", 100),
        ("1kb", 1000),
    ],
)
def test_sizes_are_read_in_words(text: str, size: int) -> None:
    assert size == quantities.size_bytes(text)


@pytest.mark.parametrize("text", ["", "8", "8M", "0MB", "1.5B", "-1MB", "8PB", "9" * 39 + "B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size"):
        quantities.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "fraction"), [("1%", 0.01), ("0.5%", 0.005), ("100%", 1.0), ("0%", 0.0)]
)
def test_shares_are_read_as_fractions(text: str, fraction: float) -> None:
    assert fraction == quantities.share(text)


@pytest.mark.parametrize("text", ["1", "101%", "-1%", "%", "1e1%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a share"):
        quantities.share(text)


@given(st.integers(1, quantities.MILLISECONDS_MAX))
def test_a_duration_reads_back_as_it_was_written(milliseconds: int) -> None:
    assert milliseconds == quantities.duration_ms(quantities.duration_text(milliseconds))


@given(st.integers(1, quantities.BYTES_MAX))
def test_a_size_reads_back_as_it_was_written(size: int) -> None:
    assert size == quantities.size_bytes(quantities.size_text(size))


@given(st.decimals(0, 100, places=6))
def test_a_share_reads_back_as_it_was_written(percent: object) -> None:
    fraction = quantities.share(f"{percent}%")
    assert fraction == quantities.share(quantities.share_text(fraction))
