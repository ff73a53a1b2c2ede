"""Signed JWTs of the client: client assertions (RFC 7523) and DPoP proofs (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from mcpdesk.errors import AuthorizationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""JWS algorithm by name of a curve."""
ASSERTION_S = 60
"""Lifetime of a signed assertion in seconds."""


def signed_assertion(client_id: str, issuer: str, private_key_pem: str) -> str:
    """Return a client assertion. Raises: AuthorizationError if the key cannot sign."""
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    now = int(time.time())
    claims = {"iss": client_id, "sub": client_id, "aud": issuer, "iat": now, "exp": now + ASSERTION_S}
    try:
        key = load_pem_private_key(private_key_pem.encode(), None)
        algorithm = _algorithm(key)
        return jwt.encode(claims | {"jti": secrets.token_urlsafe(16)}, private_key_pem, algorithm)
    except (ValueError, TypeError, NotImplementedError, UnsupportedAlgorithm, jwt.PyJWTError) as error:
        raise AuthorizationError(f"the client's private key cannot sign: {error}") from None


def _algorithm(key: PrivateKeyTypes) -> str:
    """Return the JWS algorithm of a private key. Raises: ValueError for another kind. Source: RFC 7518."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    match key:
        case rsa.RSAPrivateKey():
            return "RS256"
        case ed25519.Ed25519PrivateKey() | ed448.Ed448PrivateKey():
            return "EdDSA"
        case ec.EllipticCurvePrivateKey(curve=curve) if curve.name in _CURVE_ALGORITHMS:
            return _CURVE_ALGORITHMS[curve.name]
    raise ValueError("only RSA, P-256, P-384, P-521 and Ed25519 keys sign assertions")


class ProofKey:
    """DPoP key that tokens are bound to, and the nonces that servers require in DPoP proofs.

    The key is not stored, so each process has a new one.
    """

    def __init__(self) -> None:
        self._nonces: dict[str, str] = {}

    def header(self, method: str, url: str, token: str = "") -> dict[str, str]:
        """Return the DPoP header of one request. If `token` is given, the proof contains the token's hash."""
        import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit(urlsplit(url)._replace(query="", fragment="")),
            "iat": int(time.time()),
        }
        if nonce := self._nonces.get(_origin(url)):
            claims["nonce"] = nonce
        if token:
            claims["ath"] = _base64url(hashlib.sha256(token.encode()).digest())
        jwt_header = {"typ": "dpop+jwt", "jwk": self._public_jwk}
        return {"DPoP": jwt.encode(claims, self._key, "ES256", jwt_header)}

    def store_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Store the nonce of an answer. `headers` have lower-case names. Return True if the nonce is new."""
        nonce = headers.get("dpop-nonce", "")
        is_new = bool(nonce) and nonce != self._nonces.get(_origin(url))
        if is_new:
            self._nonces[_origin(url)] = nonce
        return is_new

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def _public_jwk(self) -> dict[str, str]:
        point = self._key.public_key().public_numbers()
        x, y = (_base64url(number.to_bytes(32, "big")) for number in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
