"""Record of a load: every answer is counted, and memory is sampled throughout."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

KEPT = 20
"""Number of complaints that are kept."""
LEVEL = 1.05
LEVEL_BYTES = 8 << 20
"""Memory is level if it grew by less than this share plus these bytes."""


@dataclass
class Tally:
    """Counts of one run."""

    asked: int = 0
    answered: int = 0
    jobs_begun: int = 0
    jobs_done: int = 0
    wrong: int = 0
    complaints: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """Resident bytes of the server, at equal intervals."""
    counted: dict[str, float] = field(default_factory=dict)
    """Final figures of the server, from its `/metrics`."""

    def complain(self, what: str) -> None:
        """Record an error."""
        self.wrong += 1
        if len(self.complaints) < KEPT:
            self.complaints.append(what[:500])

    @property
    def lost(self) -> int:
        """Calls and jobs without a correct answer."""
        return self.asked - self.answered + self.jobs_begun - self.jobs_done

    @property
    def growth(self) -> tuple[int, int]:
        """Bytes after the start and at the end: medians of the second and of the last quarter."""
        quarter = max(1, len(self.memory) // 4)
        return int(median(self.memory[quarter : 2 * quarter] or self.memory)), int(
            median(self.memory[-quarter:])
        )

    @property
    def is_level(self) -> bool:
        """True if memory grew less than allowed."""
        before, after = self.growth
        return after <= before * LEVEL + LEVEL_BYTES

    def lines(self, seconds: float) -> list[str]:
        """Report of the counts."""
        before, after = (size / (1 << 20) for size in self.growth)
        return [
            f"calls     {self.answered} of {self.asked} answered, {self.answered / seconds:.0f} a second",
            f"jobs      {self.jobs_done} of {self.jobs_begun} done",
            f"lost      {self.lost}, wrong {self.wrong}",
            f"memory    {before:.1f} MiB once settled, {after:.1f} MiB at the end:"
            f" {'level' if self.is_level else 'GROWING'}",
            *(f"complaint {complaint}" for complaint in self.complaints),
        ]
