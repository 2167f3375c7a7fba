"""Certificates for tests: an authority, and keys of 127.0.0.1 that it vouches for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256


@dataclass(frozen=True, slots=True)
class Certified:
    """Files in PEM: whom to trust, and a certificate with its key."""

    ca: Path
    certificate: Path
    key: Path


class Authority:
    """An authority, which vouches for names."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        built = _builder(self._name, self._name, self._key)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        self._own = built.add_extension(basic, critical=True).sign(self._key, SHA256())

    def pem(self) -> bytes:
        return self._own.public_bytes(serialization.Encoding.PEM)

    def certified(self, directory: Path, name: str = "127.0.0.1") -> Certified:
        """Write a new certificate, its key and this authority's into a directory."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        built = _builder(_name(name), self._name, key).add_extension(names, critical=False)
        certificate = built.sign(self._key, SHA256())
        written = Certified(*(directory / f"{each}.pem" for each in ("ca", "certificate", "key")))
        written.ca.write_bytes(self.pem())
        written.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        written.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return written


def certified(directory: Path) -> Certified:
    """Write a certificate of an authority of its own."""
    return Authority().certified(directory)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Any) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )
