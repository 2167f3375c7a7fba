"""Whole objects: there or not, and errors that name the place and no setting."""

import obstore
import pytest

from penstock.files import objects


class PanicException(BaseException):
    """What a library in Rust raises when it panics has this name and this ancestor."""


def test_an_object_is_written_read_and_removed(tmp_path):
    place = str(tmp_path)
    objects.put(place, (), "log/1.json", b"one", "create")
    objects.put(place, (), "log/1.json", b"two", "overwrite")

    assert b"two" == objects.fetch(place, (), "log/1.json")
    objects.delete(place, (), "log/1.json")
    with pytest.raises(FileNotFoundError):
        objects.fetch(place, (), "log/1.json")


def test_what_is_there_is_not_created_again(tmp_path):
    place = str(tmp_path)
    objects.put(place, (), "1.json", b"one", "create")
    with pytest.raises(FileExistsError, match=r"1\.json"):
        objects.put(place, (), "1.json", b"two", "create")

    assert b"one" == objects.fetch(place, (), "1.json")


def test_a_storage_that_is_away_is_an_oserror_with_the_place_and_without_a_key(monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = (
        ("access_key_id", "AKIATEST"),
        ("allow_http", "false"),
        ("endpoint_url", "http://127.0.0.1:1"),
        ("region", "eu-central-1"),
        ("secret_access_key", "hush"),
    )
    with pytest.raises(OSError, match=r"s3://lake/log/1\.json") as raised:  # http is not allowed
        objects.fetch("s3://lake/log", settings, "1.json")

    reported = f"{raised.value!r} {raised.value.__cause__}"
    assert not any(secret in reported for secret in ("AKIATEST", "hush"))


def test_a_panic_of_the_library_is_an_oserror(tmp_path, monkeypatch):
    def panics(*_args, **_settings):
        raise PanicException("index out of bounds\nnote: run with a backtrace")

    monkeypatch.setattr(obstore, "put", panics)
    with pytest.raises(OSError, match=r"index out of bounds$"):
        objects.put(str(tmp_path), (), "1.json", b"one", "create")


def test_what_is_no_error_of_the_storage_passes(tmp_path, monkeypatch):
    def stops(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(obstore, "get", stops)
    with pytest.raises(KeyboardInterrupt):
        objects.fetch(str(tmp_path), (), "1.json")
