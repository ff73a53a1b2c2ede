"""Fault rules. They delay, lose or reject some of the messages that match a filter, in order to test clients.

Each rule is one line of text, on the screen and in a file. The random numbers of each rule and client have a
fixed seed, so the same messages in the same order always get the same faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from random import Random
from time import time
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.recorder.record import FAULT

if TYPE_CHECKING:
    from mcpdesk.recorder.index.query import Node

MAX_RULES = 100
MAX_GENERATORS = 1_000
"""Maximum number of random generators.

Each pair of rule and client has one. The oldest is discarded first.
"""
MAX_DELAY_S = 3600.0
_RULE = re.compile(
    r"(?P<kind>\S+)(?P<options>(?:\s+(?:\"[^\"]*\"|(?!for(?:\s|$))\S+))*)(?:\s+for\s+(?P<filter>.+))?"
)
"""Pattern for a rule: the kind of the fault, options, and a filter after the word `for`."""
_OPTION = re.compile(r"\"[^\"]*\"|\S+")
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)%")
_ONE_WAY = re.compile(r"notifications/|kind:notification|elicitation/|sampling/|roots/list")
"""Pattern for filters that name notifications, or questions of a server to its client."""
_DELAY_RANGE = re.compile(r"(\d+(?:\.\d+)?)(ms|s)(?:\.\.(\d+(?:\.\d+)?)(ms|s))?")


class FaultKind(StrEnum):
    """Action of a rule. The value is the word that the person writes."""

    DELAY = "delay"
    LOSE = "lose"
    ERROR = "error"
    SESSION = "session"
    CUT = "cut"


_ALLOWED_OPTIONS = {
    FaultKind.DELAY: "a time like 2s, 200ms or 1s..5s, and a share like 10%",
    FaultKind.LOSE: "a share like 10%",
    FaultKind.ERROR: 'a code like -32603, a message in quotes, and a share like 10%',
    FaultKind.SESSION: "a share like 10%",
    FaultKind.CUT: "a share like 10%",
}  # fmt: skip


class FaultRule(Struct, frozen=True):
    """One rule."""

    line: int
    """Number of the line, from 1."""
    kind: FaultKind
    node: Node
    """Parsed filter for messages."""
    share: float = 100.0
    """Percentage of matching messages that get the fault."""
    min_delay_s: float = 0.0
    max_delay_s: float = 0.0
    code: int = ErrorCode.INTERNAL_ERROR
    """JSON-RPC code of the error, for a rule of the kind `ERROR`."""
    message: str = "a fault by rule"
    """Message of the error, for a rule of the kind `ERROR`."""
    is_one_way: bool = False
    """True if the rule also applies to notifications and to questions of a server."""


class Fault(Struct, frozen=True):
    """Fault to apply to one message."""

    rule: FaultRule
    seconds: float = 0.0
    """Delay in seconds, for a rule of the kind `DELAY`."""

    def description(self) -> str:
        """Return a description of the fault, which the capture records."""
        effect = {
            FaultKind.DELAY: "delayed",
            FaultKind.LOSE: "lost",
            FaultKind.ERROR: "answered with an error",
            FaultKind.SESSION: "refused with 404",
            FaultKind.CUT: "cut off",
        }[self.rule.kind]
        return f"{effect} {FAULT} {self.rule.line}"


class FaultRules:
    """Active fault rules and their random generators."""

    def __init__(self, text: str = "") -> None:
        """Parse rules, one per line.

        Raises: ValueError with the line and the allowed values.
        """
        self.text = text
        self.rules: list[FaultRule] = []
        self._seed = 0
        self._generators: dict[tuple[int, str], Random] = {}
        """Random generators by line of the rule and name of the client."""
        for number, raw_line in enumerate(text.splitlines(), 1):
            line = raw_line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                if match := re.fullmatch(r"seed\s+(\d{1,18})", line):
                    self._seed = int(match[1])
                    continue
                self.rules.append(_parsed_rule(number, line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        if len(self.rules) > MAX_RULES:
            raise ValueError(f"line {self.rules[MAX_RULES].line}: at most {MAX_RULES} rules are allowed")
        self.has_one_way = any(rule.is_one_way for rule in self.rules)
        """True if a rule also applies to notifications and questions."""

    @property
    def has_cuts(self) -> bool:
        """True if a rule applies to answers."""
        return any(rule.kind is FaultKind.CUT for rule in self.rules)

    def select_fault(
        self,
        peer: str,
        matches: Callable[[Node], bool],
        *,
        is_answer: bool,
        in_session: bool = False,
        is_one_way: bool = False,
    ) -> Fault | None:
        """Return the fault for a message of the client `peer`, or None.

        Each rule that matches is selected at random, with the probability `share`. The first selected rule
        determines the fault. `is_one_way` is True for a notification, and for a question of a server.
        """
        for rule in self.rules:
            if (rule.kind is FaultKind.CUT) is not is_answer or (is_one_way and not rule.is_one_way):
                continue
            if (rule.kind is FaultKind.SESSION and not in_session) or not matches(rule.node):
                continue
            generator = self._generator(rule.line, peer)
            if generator.random() * 100 < rule.share:
                return Fault(rule, generator.uniform(rule.min_delay_s, rule.max_delay_s))
        return None

    def _generator(self, line: int, peer: str) -> Random:
        """Return the random generator of a rule for one client."""
        generator = self._generators.get((line, peer))
        if generator is None:
            if len(self._generators) >= MAX_GENERATORS:
                del self._generators[next(iter(self._generators))]
            generator = self._generators[line, peer] = Random(f"{self._seed} {line} {peer}")
        return generator


def _parsed_rule(number: int, line: str) -> FaultRule:
    """Parse one line. Raises: ValueError for an invalid line, and for a filter that can never match."""
    from mcpdesk.features.holding import reachable_rules
    from mcpdesk.recorder.index.query import QueryError, parse

    match = _RULE.fullmatch(line)
    first_word = line.split()[0]
    kind = next((each for each in FaultKind if first_word == each), None)
    if kind is None:
        kinds = ", ".join(FaultKind)
        raise ValueError(f"{first_word!r} is not a fault; use {kinds}, or seed NUMBER")
    if match is None:
        raise ValueError("after `for` there must be a filter, like tool:echo")
    try:
        node = parse(match["filter"] or "", time())
    except QueryError as error:
        raise ValueError(error.message) from None
    share, code, message = 100.0, int(ErrorCode.INTERNAL_ERROR), "a fault by rule"
    min_delay_s = max_delay_s = 0.0
    for word in _OPTION.findall(match["options"]):
        delay = _DELAY_RANGE.fullmatch(word)
        if (percent := _PERCENTAGE.fullmatch(word)) and 0 < float(percent[1]) <= 100:
            share = float(percent[1])
        elif kind is FaultKind.DELAY and delay is not None:
            min_delay_s = _seconds(delay[1], delay[2])
            max_delay_s = _seconds(delay[3], delay[4]) if delay[3] else min_delay_s
        elif kind is FaultKind.ERROR and word.startswith('"'):
            message = word[1:-1]
        elif kind is FaultKind.ERROR and re.fullmatch(r"-?\d{1,9}", word):
            code = int(word)
        else:
            raise ValueError(f"{word!r} is invalid; {kind} takes {_ALLOWED_OPTIONS[kind]}, then `for FILTER`")
    is_valid_delay = min_delay_s <= max_delay_s and 0 < max_delay_s <= MAX_DELAY_S
    if kind is FaultKind.DELAY and not is_valid_delay:
        raise ValueError(f"delay needs a time above 0s, of {MAX_DELAY_S:.0f}s at most, like 2s or 1s..5s")
    is_one_way = kind in (FaultKind.DELAY, FaultKind.LOSE) and bool(_ONE_WAY.search(match["filter"] or ""))
    moments = [reachable_rules.ANSWER if kind is FaultKind.CUT else reachable_rules.REQUEST]
    if is_one_way:
        moments += [reachable_rules.NOTIFICATION, reachable_rules.QUESTION]
    reachable_rules.check_matches(node, moments)
    return FaultRule(number, kind, node, share, min_delay_s, max_delay_s, code, message, is_one_way)


def _seconds(amount: str, unit: str) -> float:
    return float(amount) / (1000 if unit == "ms" else 1)
