"""Both designs of tasks on the wire: the same facts in different words."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec, task_shapes
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import REVISIONS, V2025_11_25, V2026_07_28
from mcpdesk.protocol.task_shapes import EXTENSION, TaskStatus, TaskView
from tests.support.official_schema import problems

VIEW = TaskView("t1", TaskStatus.WORKING, 1785578400.0, 1785578401.25, 600.0, "half way")
LATER = "2026-08-01T10:00:01.250Z"


def test_the_core_design_in_its_own_words() -> None:
    body = task_shapes.core(VIEW)
    assert body == {
        "taskId": "t1",
        "status": "working",
        "statusMessage": "half way",
        "createdAt": "2026-08-01T10:00:00.000Z",
        "lastUpdatedAt": LATER,
        "ttl": 600_000,
        "pollInterval": task_shapes.POLL_MS,
    }
    assert problems("2025-11-25", "Task", body) == []
    assert task_shapes.created(VIEW, Terms(V2025_11_25)) == {"task": body}
    odd = TaskView("t1", TaskStatus.FAILED, 0.0, 0.0, None, "no file 'caf\udce9'")
    assert task_shapes.core(odd)["statusMessage"] == "no file 'caf?'"


def test_the_extension_in_its_own_words() -> None:
    body = task_shapes.created(TaskView("t1", TaskStatus.WORKING, 0.0, 0.0, None), Terms(V2026_07_28))
    assert body == {
        "resultType": "task",
        "taskId": "t1",
        "status": "working",
        "createdAt": "1970-01-01T00:00:00.000Z",
        "lastUpdatedAt": "1970-01-01T00:00:00.000Z",
        "ttlMs": None,
        "pollIntervalMs": task_shapes.POLL_MS,
    }


@pytest.mark.parametrize(
    ("status", "member"),
    [
        (TaskStatus.WORKING, None),
        (TaskStatus.INPUT_REQUIRED, "inputRequests"),
        (TaskStatus.COMPLETED, "result"),
        (TaskStatus.FAILED, "error"),
        (TaskStatus.CANCELLED, None),
    ],
)
def test_details_are_those_of_the_status(status: TaskStatus, member: str | None) -> None:
    view = TaskView("t1", status, 0.0, 0.0, 1.0)
    details = task_shapes.detailed(
        view, b'{"content":[]}', ProtocolError(7, "no"), {"q": {"method": "roots/list"}}
    )
    wire = orjson.loads(codec.encode(details))
    values = {"inputRequests": {"q": {"method": "roots/list"}}, "result": {"content": []}}
    values["error"] = {"code": 7, "message": "no"}
    assert {key: wire[key] for key in values if key in wire} == ({member: values[member]} if member else {})


@pytest.mark.requirement("8.10")
def test_what_is_missing_is_named_as_capabilities_name_it() -> None:
    error = task_shapes.missing_extension("tasks/get")
    assert (error.code, error.data) == (-32021, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})


@pytest.mark.parametrize(
    ("task", "seconds"),
    [({}, None), ({"ttl": None}, None), ({"ttl": 1500}, 1.5), ({"ttl": 1500.0}, 1.5), ({"ttl": 1}, 0.001)],
)
def test_a_lifetime_may_be_asked_for(task: dict[str, Any], seconds: float | None) -> None:
    assert task_shapes.requested_ttl_s({"task": task}) == seconds


def test_a_lifetime_beyond_all_measure_can_still_be_told() -> None:
    ttl_s = task_shapes.requested_ttl_s({"task": {"ttl": 2**64 - 1}})
    told = task_shapes.core(TaskView("t", TaskStatus.WORKING, 0.0, 0.0, ttl_s))
    assert orjson.loads(orjson.dumps(told))["ttl"] == pytest.approx(2**53)


@pytest.mark.parametrize(
    "task", [None, 5, [], {"ttl": "1"}, {"ttl": 1.5}, {"ttl": True}, {"ttl": 0}, {"ttl": -1}]
)
def test_other_lifetimes_are_refused(task: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="task"):
        task_shapes.requested_ttl_s({"task": task})


def test_each_design_has_its_own_methods() -> None:
    served = {
        revision.name: {
            name.removeprefix("tasks/")
            for name, row in METHODS.items()
            if row.capability == "tasks" and revision.name in row.revisions
        }
        for revision in REVISIONS
    }
    assert served["2025-11-25"] == {"get", "result", "list", "cancel"}
    assert served["2026-07-28"] == {"get", "update", "cancel"}
    assert all(not served[name] for name in ("2024-11-05", "2025-03-26", "2025-06-18"))
    assert all(METHODS[f"tasks/{name}"].routing_field == "taskId" for name in served["2026-07-28"])
