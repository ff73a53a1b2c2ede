"""Ratios, goals and the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.bench.__main__ import main
from tests.bench.figure import FRAME, OURS, Effort, Figure, Goal, beside, rates
from tests.bench.measured import Measured
from tests.bench.page import part, refusal, renewed
from tests.bench.table import row


def test_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    figure = Figure("calls", "/s", [10, 20, 90], "frame", [10, 10, 10], Goal(2))
    assert figure.ratio == 2
    assert figure.verdict == "yes"
    assert row(figure).split() == ["calls", "20", "/s", "frame", "10", "/s", "2.00", ">=", "2", "yes"]


def test_a_goal_at_most_is_missed_above_it() -> None:
    assert Figure("start", "ms", [3.1], goal=Goal(3, at_most=True)).verdict == "NO"
    assert Figure("start", "ms", [2.9], goal=Goal(3, at_most=True)).verdict == "yes"


def test_every_peer_that_was_measured_has_a_line_and_without_one_there_is_still_one() -> None:
    assert [each.peer for each in beside("calls", "/s", {OURS: [1], FRAME: [2], "SDK": [3]})] == [
        FRAME,
        "SDK",
    ]
    assert [each.peer for each in beside("calls", "/s", {OURS: [1]})] == [""]


def test_a_rate_that_is_the_loads_own_says_so() -> None:
    busy = Measured(100, load_busy=0.99, server_busy=0.3)
    first, *_ = rates("calls", {OURS: [Measured(50, load_busy=0.4, server_busy=1)], FRAME: [busy]}, {})
    assert first.note == "bound by the load: frame"


def test_every_round_begins_with_programs_of_its_own_and_measures_them_in_turn() -> None:
    begun: list[str] = []

    @contextmanager
    def begin() -> Iterator[Mapping[str, Mapping[str, Callable[[], int]]]]:
        begun.append("start")
        count = len(begun)
        yield {case: {name: lambda: count for name in (OURS, FRAME)} for case in ("few", "many")}
        begun.append("end")

    samples = Effort(rounds=2).afresh(begin)
    assert begun == ["start", "end", "start", "end"]
    assert samples == {case: {OURS: [1, 3], FRAME: [1, 3]} for case in ("few", "many")}


def test_the_page_has_a_row_for_each_figure_and_a_column_for_each_peer() -> None:
    slow = Figure("calls", "/s", [10], FRAME, [20], Goal(0.85))
    figures = [
        slow,
        Figure("calls", "/s", [10], "SDK", [2], Goal(3)),
        Figure("start", "ms", [3], goal=Goal(2)),
    ]
    lines = part("http", "calls over HTTP", figures, "Today.").splitlines()
    assert lines[:9] == [
        "<!-- http -->",
        "",
        "## Calls over HTTP",
        "",
        "Today.",
        "",
        "A peer is better in these figures (with the ratio):",
        "",
        "* frame: calls (0.50)",
    ]
    assert "|  | mcpdesk | frame | SDK |" in lines
    assert (
        "| calls | 10 /s | 20 /s; ratio 0.50, at least 0.85 **missed** | 2 /s; ratio 5.00, at least 3 |"
        in lines
    )
    assert "| start | 3 ms, at least 2 |  |  |" in lines


def test_the_page_names_figures_in_which_a_peer_is_better() -> None:
    faster = Figure("calls", "/s", [10], "SDK", [2])
    slower = Figure("start", "ms", [3], FRAME, [2])
    slow_stop = Figure("stop", "ms", [3], "SDK", [2])
    assert "No peer is better in any figure." in part("http", "calls", [faster], "Today.").splitlines()
    lines = part("cold", "start", [slower, slow_stop, faster], "Today.").splitlines()
    assert lines[6:10] == [
        "A peer is better in these figures (with the ratio):",
        "",
        "* SDK: stop (1.50)",
        "* frame: start (1.50)",
    ]


def test_nothing_is_published_from_a_machine_with_other_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(0.9) == ""
    monkeypatch.setattr("os.getloadavg", lambda: (3.14, 0.0, 0.0))
    monkeypatch.setattr("sys.argv", ["bench", "--page", "ws"])
    with pytest.raises(SystemExit):
        main()
    assert "the load average is 3.1, and figures are published below 1 only" in capsys.readouterr().err


def test_a_part_takes_the_place_of_the_last_one_of_its_name_and_nothing_else() -> None:
    first, other, second = (part(name, name, [], when) for name, when in (("a", "1"), ("b", "2"), ("a", "3")))
    page = renewed(renewed("# Figures\n", "a", first), "b", other)
    assert renewed(page, "a", second) == f"# Figures\n\n{second}\n{other}"
