"""Decoding of a message in any encoding, with remarks if it is not plain UTF-8."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from mcpdesk.protocol.reading.remark import Remark, RemarkKind

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_ENCODED_SURROGATE = re.compile(rb"(?:\xed[\xa0-\xbf][\x80-\xbf])+")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_NOT_ASCII = re.compile("[^\x00-\x7f\ud800-\udfff]")


class DecodedText(Struct, frozen=True):
    """Text of a message, with a mapping to positions in its bytes."""

    text: str
    remarks: tuple[Remark, ...]
    offset: Callable[[int], int]
    """Function that maps a position in `text` to an offset in the bytes."""


def utf16_encoding(data: bytes) -> str:
    """Return the UTF-16 encoding of the beginning of a message, or an empty string."""
    if encoding := _UTF16_BOMS.get(data[:2]):
        return encoding
    if len(data) >= 4:
        nuls = [not byte for byte in data[:4]]
        if nuls == [False, True, False, True]:
            return "utf-16-le"
        if nuls == [True, False, True, False]:
            return "utf-16-be"
    return ""


def decoded_text(data: bytes) -> DecodedText:
    """Decode a message. Never raises: invalid bytes become U+FFFD."""
    if encoding := utf16_encoding(data):
        return _utf16(data, encoding)
    return _utf8(data)


def _utf16(data: bytes, encoding: str) -> DecodedText:
    start = 2 * (data[:2] in _UTF16_BOMS)
    body = data[start:]
    text = body[: len(body) & ~1].decode(encoding, "replace").rstrip("\x00")
    order = "little" if encoding.endswith("le") else "big"
    remark = f"the message is encoded as UTF-16 ({order} endian) instead of UTF-8"
    return DecodedText(
        text,
        (Remark(RemarkKind.UTF16, remark, 0),),
        lambda at: start + len(text[:at].encode(encoding, "surrogatepass")),
    )


def _utf8(data: bytes) -> DecodedText:
    """Decode UTF-8. Read invalid bytes as Windows-1252 if the text is otherwise ASCII."""
    remarks = []
    start = len(_BOM) if data.startswith(_BOM) else 0
    if start:
        remarks.append(Remark(RemarkKind.BYTE_ORDER_MARK, "the message begins with a byte-order mark", 0))
    joined = _ENCODED_SURROGATE.sub(_joined_surrogates, data[start:]) if b"\xed" in data else data[start:]
    if joined != data[start:]:
        at = next(match.start() for match in _ENCODED_SURROGATE.finditer(data))
        remark = f"UTF-16 surrogates were encoded one by one as UTF-8 at byte {at}; they were joined"
        remarks.append(Remark(RemarkKind.SURROGATE, remark, at))
    raw = joined.decode("utf-8", "surrogateescape")
    text = raw
    if invalid_byte := _ESCAPED_BYTE.search(raw):
        at = start + len(raw[: invalid_byte.start()].encode())
        byte = ord(invalid_byte[0]) - 0xDC00
        # If other characters are valid UTF-8, the invalid bytes are parts of a truncated character.
        if _NOT_ASCII.search(raw):
            text = _ESCAPED_BYTE.sub("\N{REPLACEMENT CHARACTER}", raw)
            effect = "it was replaced by U+FFFD"
        else:
            text = _ESCAPED_BYTE.sub(_windows_1252, raw)
            effect = "the text was read as Windows-1252"
        remark = f"byte 0x{byte:02X} at offset {at} is not UTF-8; {effect}"
        remarks.append(Remark(RemarkKind.ENCODING, remark, at))
    return DecodedText(
        text, tuple(remarks), lambda at: start + len(raw[:at].encode("utf-8", "surrogateescape"))
    )


def _windows_1252(match: re.Match[str]) -> str:
    byte = bytes([ord(match[0]) - 0xDC00])
    try:
        return byte.decode("cp1252")
    except UnicodeDecodeError:
        return byte.decode("latin-1")


def _joined_surrogates(match: re.Match[bytes]) -> bytes:
    halves = match[0].decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
