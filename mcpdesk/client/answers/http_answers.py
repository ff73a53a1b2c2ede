"""Bodies and events of HTTP as the answer to one request."""

from __future__ import annotations

from mcpdesk.client.transport import Incoming, Receive, excerpt
from mcpdesk.errors import InvalidAnswer, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.reading.message import (
    ReadFrame,
    batch_remark,
    id_remark,
    is_answer,
    read_frame,
    same_id,
)
from mcpdesk.protocol.reading.remark import Remark


def own_answer(
    read: ReadFrame, identifier: Id | None, has_batches: bool, receive: Receive | None, frame: bytes = b""
) -> tuple[JSONObject | None, tuple[Remark, ...]]:
    """The response to a request in a frame, and what is wrong with it. All else goes to `receive`.

    One with another id is taken for it, and fails: nothing else is answered here.
    """
    remarks, found = read.remarks, None
    if isinstance(read.value, list) and not has_batches:
        remarks = (*remarks, batch_remark(len(read.value)))
    answers = [each for each in read.messages if is_answer(each)]
    for each in answers:
        if same_id(each.get("id"), identifier or 0) and identifier is not None:
            found = each
    found = found or next(iter(answers), None)
    for each in read.messages:
        if each is not found and receive is not None:
            is_whole = frame and not isinstance(read.value, list)
            about = remarks if found is None else ()
            receive(Incoming(each, frame if is_whole else codec.encode(each), about))
    if found is None or identifier is None or not same_id(given := found.get("id"), identifier):
        return found, remarks
    if type(given) is not type(identifier):
        found, remarks = {**found, "id": identifier}, (*remarks, id_remark(given, identifier))
    return found, remarks


def read_event(data: bytes) -> ReadFrame:
    """Read an event. Raises: InvalidAnswer when it is no JSON, or a response that cannot be read."""
    read = read_frame(data)
    if read.fault is not None and read.is_response:
        raise InvalidAnswer(f"an event cannot be used: {read.fault.text}", excerpt=excerpt(data))
    if not read.is_message:
        try:
            codec.decode(data)
        except ProtocolError as error:
            reason = f"an event is not JSON: {error.message}"
            raise InvalidAnswer(reason, excerpt=excerpt(data)) from None
    return read
