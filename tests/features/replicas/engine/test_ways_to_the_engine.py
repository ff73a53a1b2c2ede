"""The engine over TLS and over a Unix socket, and the messages if it cannot be reached that way."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable, connect
from mcpdesk.features.replicas.engine.event_bus import EventBus
from tests.support.engine import EngineServer, engine_server, needs_engine
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S, until
from tests.support.ports import free_port
from tests.support.replicas import ServedReplica
from tests.support.session_client import calculator

OPENSSL = shutil.which("openssl") or ""
pytestmark = [needs_engine, pytest.mark.skipif(not OPENSSL, reason="openssl is not installed")]
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Certificates:
    """Files of an authority, and of a server and a client it vouches for."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.authority = self._made("authority", "-x509", "-subj", "/CN=authority")
        self.server, self.client = self._signed("localhost"), self._signed("client")

    def key(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def _signed(self, name: str) -> Path:
        request = self._made(f"{name}-request", "-subj", f"/CN={name}")
        said = self._place / f"{name}.cnf"
        said.write_text(f"subjectAltName=DNS:{name}")
        made = self._place / f"{name}.pem"
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", self.key(self.authority),
            "-CAcreateserial", "-extfile", said, "-days", "2", "-out", made,
        )  # fmt: skip
        self.key(request).rename(self.key(made))
        return made

    def _made(self, name: str, *more: str) -> Path:
        made = self._place / f"{name}.pem"
        _openssl("req", *KEY, "-days", "2", "-keyout", self.key(made), "-out", made, *more)
        return made


def _openssl(*words: str | Path) -> None:
    subprocess.run([OPENSSL, *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class TlsEngine(EngineServer):
    """A server that speaks TLS on a second port."""

    def __init__(self, certificates: Certificates, *more: str) -> None:
        self.tls_port = free_port()
        super().__init__(
            [
                "--tls-port", str(self.tls_port), "--tls-cert-file", str(certificates.server),
                "--tls-key-file", str(certificates.key(certificates.server)),
                "--tls-ca-cert-file", str(certificates.authority), *more,
            ]
        )  # fmt: skip


@pytest.fixture(scope="module")
def encrypted(certificates: Certificates) -> Iterator[TlsEngine]:
    server = TlsEngine(certificates, "--tls-auth-clients", "optional")
    yield server
    server.close()


async def works(url: str) -> None:
    """Commands, scripts and streams go through."""
    engine = Engine(url, "ways")
    await engine.start()
    one, two = EventBus(engine, "one"), EventBus(engine, "two")
    heard: list[int] = []
    two.listen("changed", lambda told: heard.append(told["number"]))
    await two.start()
    one.publish("changed", number=3)
    await until(lambda: heard == [3])
    assert await engine.script("return ARGV[1]", [engine.key("a")], ["b"]) == b"b"
    assert engine.status.is_up
    await one.close()
    await two.close()
    await engine.close()


async def refused(url: str) -> str:
    """Error message about an engine that cannot be used."""
    engine = Engine(url, "ways")
    with pytest.raises(EngineUnavailable) as told:
        await engine.run(lambda client: client.get("a"))
    await engine.close()
    return str(told.value)


@pytest.mark.process
async def test_tls_with_an_authority_of_our_own(encrypted: TlsEngine, certificates: Certificates) -> None:
    await works(f"rediss://localhost:{encrypted.tls_port}/0?ssl_ca_certs={certificates.authority}")


@pytest.mark.process
async def test_an_engine_that_wants_a_certificate_of_its_clients(certificates: Certificates) -> None:
    server = TlsEngine(certificates, "--tls-auth-clients", "yes")
    try:
        url = f"rediss://localhost:{server.tls_port}/0?ssl_ca_certs={certificates.authority}"
        assert "requires a client certificate" in await refused(url)
        own = certificates.client
        await works(f"{url}&ssl_certfile={own}&ssl_keyfile={certificates.key(own)}")
    finally:
        server.close()


@pytest.mark.process
@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_connection_closed_after_the_handshake_suggests_a_client_certificate(
    certificates: Certificates, is_reset: bool
) -> None:
    async with closing_server(certificates, is_reset) as port:
        url = f"rediss://localhost:{port}/0?ssl_ca_certs={certificates.authority}"
        closed = "cannot be used: the server closed the connection right after the handshake: "
        assert f"{closed}it may require a client certificate: ssl_certfile=FILE" in await refused(url)
        own = certificates.client
        with_own = await refused(f"{url}&ssl_certfile={own}&ssl_keyfile={certificates.key(own)}")
        assert with_own.endswith(f"{closed}it may reject this client certificate")


@asynccontextmanager
async def closing_server(certificates: Certificates, is_reset: bool) -> AsyncIterator[int]:
    """Port of a TLS server that ends each connection after its handshake, by a reset or in an orderly way."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.key(certificates.server))

    def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_reset:
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
        else:
            writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.process
async def test_a_certificate_of_somebody_unknown_is_refused_in_a_sentence(encrypted: TlsEngine) -> None:
    place = f"rediss://localhost:{encrypted.tls_port}/0"
    assert await refused(f"rediss://:secret@localhost:{encrypted.tls_port}/0") == (
        f"{place} cannot be used: its certificate is not trusted: self-signed certificate in certificate "
        "chain; ssl_ca_certs=FILE in the URL names the CA to trust"
    )


@pytest.mark.process
async def test_a_certificate_for_another_host_is_refused(
    encrypted: TlsEngine, certificates: Certificates
) -> None:
    said = await refused(f"rediss://127.0.0.1:{encrypted.tls_port}/0?ssl_ca_certs={certificates.authority}")
    assert "its certificate is not trusted: IP address mismatch" in said and "ssl_ca_certs" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs: /nowhere/ca.pem: No such file or directory"),
        ("ssl_ca_cert=/ca.pem", "has an option that redis-py does not support: 'ssl_ca_cert'"),
    ],
)
def test_options_that_cannot_be_used_are_said_at_once(options: str, said: str) -> None:
    with pytest.raises(DeskUserError, match=said):
        connect(f"rediss://:secret@localhost:1/0?{options}", 1.0)


@pytest.mark.process
async def test_sentinels_and_the_master_over_tls(
    encrypted: TlsEngine, certificates: Certificates, tmp_path: Path
) -> None:
    config = tmp_path / "sentinel.conf"
    config.write_text(
        "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
        f"sentinel monitor main localhost {encrypted.tls_port} 1\n"
    )
    tls = [
        "--tls-cert-file", str(certificates.server), "--tls-key-file",
        str(certificates.key(certificates.server)), "--tls-ca-cert-file", str(certificates.authority),
    ]  # fmt: skip
    port = free_port()
    more = ["--tls-port", str(port), "--tls-replication", "yes", "--tls-auth-clients", "no", *tls]
    with engine_server([str(config), "--sentinel", *more]):
        url = f"rediss+sentinel://localhost:{port}/main/0?ssl_ca_certs={certificates.authority}"
        await works(url)


@pytest.mark.process
async def test_a_unix_socket(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("socket") / "engine.sock"
    missing = await refused(f"unix://{place}")
    assert missing.startswith(f"unix://{place} cannot be used") and "No such file" in missing
    with engine_server(["--unixsocket", str(place), "--requirepass", "swordfish"]):
        await works(f"unix://:swordfish@{place}?db=1")
        assert "swordfish" not in await refused(f"unix://{place}")


@pytest.mark.slow
async def test_replicas_share_over_tls_and_say_why_they_cannot(
    encrypted: TlsEngine, certificates: Certificates, tmp_path: Path
) -> None:
    url = f"rediss://localhost:{encrypted.tls_port}/0"
    folder = calculator(tmp_path)
    good = ServedReplica([folder], f"{url}?ssl_ca_certs={certificates.authority}", tmp_path / "good")
    bad = ServedReplica([folder], url, tmp_path / "bad")
    try:
        for each in (good, bad):
            await asyncio.to_thread(each.wait_until_it_serves)
        await until(lambda: "its certificate is not trusted" in "".join(bad.said), WITHIN_S)
        assert "certificate" not in "".join(good.said)
        async with http_client() as client, client.get(f"{good.url}/status") as answer:
            assert (await answer.json())["shared"] == "up"
    finally:
        codes = [await asyncio.to_thread(each.end) for each in (good, bad)]
    assert codes == [0, 0]
