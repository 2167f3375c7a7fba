"""Names of partitions, as people write them."""

import pytest

from penstock.core.errors import InvalidError
from penstock.core.partition_names import is_of, name_of, values_of

OCTOBER = {"day": "2026-10-01", "country": '"IT"', "city": "null"}


@pytest.mark.parametrize(
    "text",
    ["day=2026-10-01", "country=IT", 'country="IT"', "day=2026-10-01/country=IT", "city=null"],
)
def test_a_name_is_of_all_partitions_with_its_values(text: str) -> None:
    assert is_of(OCTOBER, values_of(text))
    assert text == name_of(values_of(text))


@pytest.mark.parametrize("text", ["day=2026-10-02", "country=I", 'city="null"', "hour=1"])
def test_a_name_is_of_no_other(text: str) -> None:
    assert not is_of(OCTOBER, values_of(text))


def test_null_is_no_value_and_a_text_in_quotes() -> None:
    assert not is_of({"city": '"null"'}, values_of("city=null"))
    assert is_of({"city": '"null"'}, values_of('city="null"'))
    assert is_of({"path": '"a/b=\\"c"'}, values_of('path="a/b=\\"c"/x=1') | {"x": "1"}) is False
    assert is_of({"path": '"a/b"', "x": "1"}, values_of('path="a/b"/x=1'))
    assert is_of({"path": '""'}, values_of("path="))


@pytest.mark.parametrize(
    "text", ["", "day", "=1", "day=1/", "/day=1", "day=1/day=2", 'a="b', "a=b//c=d"]
)
def test_what_is_no_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        values_of(text)

    assert "P263" == raised.value.code
    assert "day=2026-10-01" in raised.value.hint
