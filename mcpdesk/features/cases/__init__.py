"""Test cases of a server. They run in a shell or in pytest, and can be made from recorded calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import CaseRecorder


class Cases(Feature):
    """The command `test`, the plugin for pytest, and the recorder of cases."""

    commands = {
        "test": FeatureCommand(
            "mcpdesk.features.cases.cases_command",
            "Build and test a server",
            before="schemas",
            takes_any_server=True,
        )
    }
    pytest_plugins = ("mcpdesk.features.cases.plugin",)

    def case_recorder(self) -> CaseRecorder | None:
        """Return the recorder of calls as cases."""
        from mcpdesk.features.cases.case_recorder import RECORDER

        return RECORDER


FEATURE = Cases()
