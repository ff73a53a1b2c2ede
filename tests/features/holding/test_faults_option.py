"""The option `--faults` of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import folder as folder
from tests.cli.conftest import mcpdesk as mcpdesk
from tests.cli.conftest import serve as serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Run, Service

pytestmark = pytest.mark.process


def test_a_service_lets_its_clients_meet_the_faults_of_a_file(
    mcpdesk: Run, serve: Callable[..., Service], folder: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "faults.txt"
    rules.write_text('# busy\nerror -32000 "come back later" for method:tools/call')
    service = serve(str(folder), "--faults", str(rules), "--port", "0", "--no-auth")
    url = service.says("serving small at").split()[-1]
    called = mcpdesk("call", url, "greet", "name=Ada")
    assert called.returncode and "come back later" in called.stderr + called.stdout
    rules.write_text("lose\nlose all")
    refused = mcpdesk("serve", str(folder), "--faults", str(rules))
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert f"{rules}, line 2: 'all' is invalid; lose takes a share like 10%" in refused.stderr
    assert "cannot be read" in mcpdesk("serve", str(folder), "--faults", str(tmp_path / "none")).stderr
