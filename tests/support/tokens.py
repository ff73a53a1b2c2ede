"""Keys and tokens of a test issuer, made once for all tests of a process."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

ISSUER = "https://issuer.example"
AUDIENCE = "https://wallet.example/mcp/wallet"
SECRET = "a secret that only the issuer and the server know, longer than any hash"

CURVES: dict[str, ec.EllipticCurve] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
    "ES256K": ec.SECP256K1(),
}


@cache
def private_key(algorithm: str, name: str = "first") -> Any:
    """The key an issuer signs with: one for each name."""
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(CURVES[algorithm])


def jwk(algorithm: str, name: str = "first", **more: Any) -> dict[str, Any]:
    """The public half of a key, as a member of a JWK set. `None` leaves a member out."""
    public = private_key(algorithm, name).public_key()
    described = get_default_algorithms()[algorithm].to_jwk(public, as_dict=True)
    members = {**described, "kid": name, "alg": algorithm, "use": "sig", **more}
    return {key: value for key, value in members.items() if value is not None and key != "key_ops"}


def jwks(*members: dict[str, Any]) -> bytes:
    """A JWK set."""
    return json.dumps({"keys": members}).encode()


def pem(algorithm: str, name: str = "first") -> bytes:
    """Public key in PEM format."""
    public = private_key(algorithm, name).public_key()
    encoded: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def claims(**changes: Any) -> dict[str, Any]:
    """Claims of a token that counts, with changes; `None` leaves one out."""
    now = int(time.time())
    usual = {"sub": "ada", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 36_000, "iat": now, "jti": "t-1"}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    algorithm: str = "RS256", name: str = "first", header: dict[str, Any] | None = None, **changes: Any
) -> str:
    """A signed token; `header` adds to its header, or with None takes away."""
    key = SECRET.encode() if algorithm.startswith("HS") else private_key(algorithm, name)
    head = {"alg": algorithm, "typ": "JWT", "kid": name, **(header or {})}
    return signed(
        algorithm, key, {key: value for key, value in head.items() if value is not None}, claims(**changes)
    )


def signed(algorithm: str, key: Any, header: Any, payload: Any) -> str:
    """A token with exactly this header and payload, signed as `algorithm` says."""
    parts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in (header, payload)]
    text = b".".join(base64(each) for each in parts)
    return (text + b"." + base64(get_default_algorithms()[algorithm].sign(text, key))).decode()


def base64(data: bytes) -> bytes:
    """Encode bytes as tokens do: base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=")


def unsigned(**changes: Any) -> str:
    """A token with the algorithm `none`."""
    return jwt.encode(claims(**changes), "", algorithm="none", headers={"kid": "first"})
