"""Certificates of the system are read late, and count all the same."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.patience import WITHIN_S

CLIENT = """
import asyncio, sys
import mcpdesk.transports.http
import aiohttp, aiohttp.connector

def known():
    return aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"]

async def main():
    before = known()
    async with aiohttp.ClientSession() as client:
        try:
            async with client.get(sys.argv[1]) as answer:
                said = await answer.text()
        except aiohttp.ClientConnectorCertificateError:
            said = "not trusted"
    print(before, known(), said)

asyncio.run(main())
"""


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate that vouches for itself and for this machine; its key lies beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "authority.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


async def answered(authority: Path, trusted: str) -> str:
    """What a fresh process says of a server with that certificate, where the system trusts `trusted`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, authority.with_suffix(".key"))

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(hello, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, f"https://127.0.0.1:{port}/",
            env={**os.environ, "SSL_CERT_FILE": trusted, "SSL_CERT_DIR": os.devnull},
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(WITHIN_S):
            out, _ = await child.communicate()
    return out.decode().strip()


async def test_what_the_system_trusts_is_read_at_the_first_connection_and_trusted(authority: Path) -> None:
    assert await answered(authority, str(authority)) == "0 1 hello"


async def test_what_the_system_does_not_trust_is_refused(authority: Path) -> None:
    assert (await answered(authority, os.devnull)).endswith("not trusted")
