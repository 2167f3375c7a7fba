"""What uses certificates is made again when their files change, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.certificates import Authority, Certified

from penstock.connectors.kafka.certificates import Renewed
from penstock.connectors.kafka.librdkafka.reader import KafkaReader
from penstock.connectors.kafka.log import KafkaLog
from penstock.connectors.kafka.native.brokers import tls_context
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.settings import KafkaSettings, read_settings
from penstock.core.errors import InvalidError
from penstock.spec.secrets import ProcessSecrets


@pytest.fixture
def own(tmp_path: Path) -> Certified:
    return Authority().certified(tmp_path)


def settings(own: Certified) -> KafkaSettings:
    files = {"ca": str(own.ca), "certificate": str(own.certificate), "key": str(own.key)}
    given = {"brokers": "127.0.0.1:1", "topics": ["t"], "security": {"protocol": "ssl", **files}}
    return read_settings(given, ProcessSecrets())


def other(directory: Path) -> Certified:
    directory.mkdir()
    return Authority("other").certified(directory)


def test_clients_are_made_again_when_a_file_changes(own: Certified, tmp_path: Path) -> None:
    read = settings(own)
    reader = KafkaReader(read)
    contexts = Renewed(read.client, lambda: tls_context(read.client), FallbackError)
    for made in (contexts, KafkaLog(read).admin, reader._opened):
        first = made()
        assert first is made()
        own.ca.write_bytes(own.ca.read_bytes() + b"\n")
        second = made()
        assert first is not second
        assert second is made()
    reader.close()


def test_files_that_do_not_fit_together_yet_leave_the_former_ones_in_use(
    own: Certified, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the write of the certificate and that of its key nobody is refused."""
    read = settings(own)
    contexts = Renewed(read.client, lambda: tls_context(read.client), FallbackError)
    for name, made in (("new", contexts), ("newer", KafkaLog(read).admin)):
        new, first = other(tmp_path / name), made()
        own.certificate.write_bytes(new.certificate.read_bytes())
        assert first is made() is made()
        assert ["the former ones are"] == [
            each.message.split(", ")[1].split(":")[0] for each in caplog.records
        ]
        own.key.write_bytes(new.key.read_bytes())
        assert first is not made()
        caplog.clear()


def test_files_that_never_fitted_are_refused(own: Certified, tmp_path: Path) -> None:
    own.key.write_bytes(other(tmp_path / "new").key.read_bytes())
    read = settings(own)
    with pytest.raises(FallbackError):
        Renewed(read.client, lambda: tls_context(read.client), FallbackError)()
    with pytest.raises(InvalidError) as caught:
        KafkaLog(read).admin()
    assert "P207" == caught.value.code


def test_what_was_made_before_the_last_change_is_closed(tmp_path: Path) -> None:
    file, closed = tmp_path / "ca.pem", []
    numbers = iter(range(9))
    made = Renewed(
        {"ssl.ca.location": str(file)}, lambda: next(numbers), FallbackError, closed.append
    )
    for count in range(3):
        file.write_text("x" * count)
        assert count == made()
    file.unlink()
    assert (3, [0, 1]) == (made(), closed)
    made.close()
    assert [0, 1, 2, 3] == closed
