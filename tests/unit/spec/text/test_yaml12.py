import math
import time

import pytest

from penstock.spec.text.yaml12 import CHARS_MAX, Span, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("12:30", "12:30"),
        ("2026-11-01", "2026-11-01"),
        ("0o14", 12),
        ("014", 14),
        ("0x1F", 31),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("-5", -5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("Null", None),
        ("'12'", "12"),
        ('"\\x41"', "A"),
        ("!!str 12", "12"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    document = read(f"a: {text}\n")
    assert {"a": value} == document.data
    assert [] == document.faults


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(read("a: .nan").data["a"])


def test_keys_and_values_have_places() -> None:
    document = read("a:\n  - x: 12\n")
    assert Span(1, 4, 1, 5) == document.keys["a", 0, "x"]
    assert Span(1, 7, 1, 9) == document.values["a", 0, "x"]
    assert "12" == document.texts["a", 0, "x"]


def test_whole_numbers_may_be_keys() -> None:
    assert {0: 1, "0": 2} == read("0: 1\n'0': 2\n").data


def test_a_key_that_is_no_number_after_all_is_reported() -> None:
    document = read("!!int abc: 1\n")
    assert {} == document.data
    assert ["P101"] == [fault.code for fault in document.faults]


def test_a_duplicate_key_is_a_fault_and_the_first_value_counts() -> None:
    document = read("a: 1\nb: 2\na: 3\n")
    assert {"a": 1, "b": 2} == document.data
    assert [("P103", 2)] == [(fault.code, fault.span.line) for fault in document.faults]


def test_anchors_are_allowed() -> None:
    document = read("a: &x { b: 1 }\nc: *x\n")
    assert {"a": {"b": 1}, "c": {"b": 1}} == document.data
    assert [] == document.faults


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "P101"),
        ("# only a comment\n", "P101"),
        ("a: [", "P101"),
        ("a: b: c", "P101"),
        ("a: *nobody", "P101"),
        ("a: !!python/object:os.system x", "P101"),
        ("a: !mine x", "P101"),
        ("!!set {a}", "P101"),
        ("a: !!int x", "P101"),
        ("? [a]\n: b", "P101"),
        ("true: 1", "P101"),
        ("a: 1\n---\nb: 2", "P101"),
        ('a: "\\UFFFFFFFF"', "P101"),
        ('a: "\\uD800"', "P101"),
        ("a: \x00", "P101"),
        ("a: " + "9" * 5000, "P101"),
        ("%YAML 9.1\n---\na: 1", "P101"),
        ("&a [*a]", "P102"),
        ("a: &a { b: *a }", "P102"),
        ("[" * 10_000, "P102"),
        ("- " * 10_000, "P102"),
        ("x" * (CHARS_MAX + 1), "P102"),
        ("[" + "1," * 60_000 + "]", "P102"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_what_is_not_plain_yaml_is_a_fault(text: str, code: str) -> None:
    assert code in {fault.code for fault in read(text).faults}


def test_an_alias_bomb_is_a_fault_and_takes_no_time() -> None:
    levels = [f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 20)]
    started = time.process_time()
    document = read("k0: &k0 [lol]\n" + "\n".join(levels))
    assert ["P102"] == [fault.code for fault in document.faults]
    assert time.process_time() - started < 5


def test_merge_keys_are_keys_as_any_other() -> None:
    assert {"<<": {"a": 1}} == read("<<: {a: 1}").data
