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


def test_a_code_that_is_none_is_told_with_where_to_find_all() -> None:
    with pytest.raises(InvalidError, match="there is no error code 'P209'") as told:
        explain("P209")

    assert "P160" == told.value.code
    assert "penstock explain" in told.value.hint
