"""Faults of results: content a client cannot show, and violations of the output schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcpdesk.protocol.catalogue.result_faults import (
    MAX_FAULTS,
    lenient_base64,
    prompt_faults,
    read_faults,
    result_faults,
)

NUMBER = {"outputSchema": {"type": "object"}}


def check(schema: Any, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "must be an object"


@pytest.mark.parametrize(
    ("contents", "faults"),
    [
        ([], ["the result has no contents"]),
        (None, ["the result has no contents"]),
        ([{"uri": "a://b", "text": None}], ["contents 0: the resource has neither text nor blob"]),
        ([{"text": "x"}, {"text": "x", "blob": "aGk="}], ["contents 1: the resource has both text and blob"]),
        ([{"blob": "a-_="}], ["contents 0: the blob of the resource is not base64"]),
        ([{"text": ""}, {"blob": ""}], []),
    ],
)
def test_faults_of_a_resource_that_was_read_are_named(contents: Any, faults: list[str]) -> None:
    assert read_faults({"contents": contents}) == faults


def test_faults_of_a_prompt_s_messages_are_named() -> None:
    text, image = {"type": "text", "text": "x"}, {"type": "image", "data": "%"}
    messages = [
        {"role": "user", "content": text},
        {"role": "system", "content": text},
        {"role": "assistant", "content": image},
    ]
    assert prompt_faults({"messages": messages}) == [
        "message 1: the protocol has no role 'system'",
        "message 2: the data of the image is not base64",
    ]


@pytest.mark.parametrize(
    ("data", "decoded"),
    [
        ("aG\nk=\r\n", b"hi"),
        ("aGk", b"hi"),
        ("_-8=", b"\xff\xef"),
        ("data:text/plain;base64,aGk=", b"hi"),
        ("%", None),
    ],
)
def test_base64_is_decoded_as_clients_do(data: str, decoded: bytes | None) -> None:
    assert lenient_base64(data) == decoded


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (
            {"type": "image", "data": "not base64!"},
            "the data of the image is not base64",
        ),
        ({"type": "audio", "data": "abc", "mimeType": "audio/wav"}, "the data of the audio is not base64"),
        ({"type": "image", "data": "data:image/png;base64,aGk="}, "the data of the image is a data: URL"),
        ({"type": "image", "data": 5}, "the data of the image is not a text"),
        ({"type": "video", "url": "https://example.com/v"}, "the protocol has no content of type 'video'"),
        ({"type": "text", "text": 5}, "its text is missing or not a string"),
        ({"type": "resource", "resource": {"uri": "a://b"}}, "the resource has neither text nor blob"),
        (
            {"type": "resource", "resource": {"uri": "a://b", "blob": "%"}},
            "the blob of the resource is",
        ),
        ({"type": "resource", "resource": "a://b"}, "the resource is not an object"),
    ],
)
def test_content_that_cannot_be_shown_is_named_with_its_place(block: Any, told: str) -> None:
    fine = {"type": "text", "text": "x"}
    faults = result_faults({"content": [fine, block]}, {}, check)
    assert len(faults) == 1 and faults[0].startswith(f"content 1: {told}")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "x"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "a://b", "name": "b"},
        {"type": "resource", "resource": {"uri": "a://b", "text": ""}},
    ],
)
def test_content_of_the_protocol_has_no_fault(block: Any) -> None:
    assert result_faults({"content": [block]}, {}, check) == []


@pytest.mark.parametrize(
    ("result", "faults"),
    [
        ({"content": []}, ["the tool declares an output schema, but its result has no structuredContent"]),
        (
            {"content": [], "structuredContent": [1]},
            ["structuredContent breaks the output schema: must be an object"],
        ),
        ({"content": [], "structuredContent": {}}, []),
        ({"content": [], "isError": True}, []),
        ({"content": [], "isError": True, "structuredContent": [1]}, []),
    ],
)
def test_structured_content_is_checked_unless_the_tool_failed(result: Any, faults: list[str]) -> None:
    assert result_faults(result, NUMBER, check) == faults
    assert result_faults(result, {}, check) == []


def test_only_the_first_faults_are_listed() -> None:
    assert len(result_faults({"content": [{"type": "x"}] * 1000}, {}, check)) == MAX_FAULTS
