"""Configuration files of known clients are found."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.client.configs.client_places import config_paths


def test_files_of_the_folder_come_before_those_of_the_user(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    for client in ("cursor", "vscode", "claude-code", "codex", "gemini", "opencode", "zed"):
        first, *_, last = config_paths(client, home, folder, {})
        assert first.is_relative_to(folder) and last.is_relative_to(home)
    (place,) = config_paths("claude-desktop", home, folder, {})
    assert place.name == "claude_desktop_config.json" and place.is_relative_to(home)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "x"), "CODEX_HOME": str(tmp_path / "c")}
    assert config_paths("goose", home, folder, environ) == [tmp_path / "x" / "goose" / "config.yaml"]
    assert config_paths("codex", home, folder, environ)[-1] == tmp_path / "c" / "config.toml"
    assert config_paths("~/x.json", home, folder, {}) == [Path.home() / "x.json"]
