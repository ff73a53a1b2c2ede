from __future__ import annotations

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.workbench.call_menus import copies, history_menu, shell_command
from mcpdesk.tui.workbench.drafts import Drafts
from mcpdesk.tui.workbench.past_calls import History, PastCall
from tests.support.fake_link import FakeLink


def test_what_can_be_copied_of_a_call() -> None:
    drafts = Drafts(FakeLink(), History())
    draft = drafts.of("profiles", CatalogueItem(ItemKind.TOOL, "user-profile", "x"))
    before = {key for key, _, _ in copies(draft, "curl x", "/f")}
    assert before == {"a", "m", "c", "n"}
    drafts.start("profiles", draft, {"userId": "a b", "n": 3})
    drafts.settle()
    texts = {key: text for key, _, text in copies(draft, "curl x", "/f")}
    assert texts["m"] == "mcpdesk call /f user-profile 'userId=a b' n:=3"
    assert texts["s"].startswith('{\n  "name": "Ada"')
    assert '"jsonrpc"' in texts["r"]


def test_history_shows_arguments_status_and_time() -> None:
    menu = history_menu("t", [PastCall(0.0, "s", "tool t", {"a": "x"}, "tool error", 0.25)])
    assert menu.choices[0].label == '{a: "x"}'
    assert menu.choices[0].hint.startswith("tool error 250 ms · ")


def test_a_request_has_a_command_where_the_program_has_one() -> None:
    assert (
        shell_command("prompts/get", {"name": "p", "arguments": {"a": "x y"}}, "/f")
        == "mcpdesk prompt /f p 'a=x y'"
    )
    assert shell_command("resources/read", {"uri": "file:///a b"}, "/f") == "mcpdesk read /f 'file:///a b'"
    assert shell_command("tools/list", {}, "/f") == "mcpdesk list /f"
    assert shell_command("ping", {}, "/f") == ""
