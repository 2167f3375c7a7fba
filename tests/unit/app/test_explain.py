import pytest

from penstock.app.explain import explain
from penstock.core.errors import InvalidError


@pytest.mark.parametrize("code", ["P201", "p201", "201"])
def test_a_code_is_found_however_it_is_written(code: str) -> None:
    page = explain(code)

    assert ("P201", "Kafka", "75") == (page.code, page.subject, page.ending)
    assert "no broker answers at …: …" in page.says
    assert page.cause
    assert page.example


def test_a_code_that_is_none_is_reported_with_where_to_find_all() -> None:
    with pytest.raises(InvalidError, match="there is no error code 'P209'") as raised:
        explain("P209")

    assert "P160" == raised.value.code
    assert "penstock explain" in raised.value.hint


def test_what_to_do_is_whole_where_it_has_several_lines() -> None:
    page = explain("P488")

    assert page.cause.endswith("since its rows would stay.")
    assert page.does[-1].endswith("may land afterwards.")
