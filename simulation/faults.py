"""Chance as the source of trouble: how often the store fails and how long things take, until the world is healed."""

from assay.core.model.ids import SECOND, Time
from simulation.settings import Settings, chance_of

WRITE_FAULTS = {
    "reject": 0.04,
    "unknown": 0.02,
    "vanish": 0.01,
    "crash_before": 0.008,
    "crash_after": 0.008,
    "late": 0.02,
}
FAULT_OF = {"vanish": "unknown", "late": "unknown"}
READ_FAULTS = {"unread": 0.01}


class Chaos:
    """Makes trouble at a store by chance; `calm` ends it."""

    def __init__(self, settings: Settings) -> None:
        self._chance = chance_of(settings.seed, "store")
        self._settings = settings
        self.calm = False
        possible = [fate for fate in WRITE_FAULTS if settings.shared or fate != "late"]
        self._writes = [(fate, WRITE_FAULTS[fate]) for fate in possible if settings.has(FAULT_OF.get(fate, fate))]
        self._reads = [("reject", rate) for fault, rate in READ_FAULTS.items() if settings.has(fault)]

    def at_write(self) -> str:
        """See `Trouble`."""
        return self._draw(self._writes) or "commit"

    def lateness(self) -> Time:
        """See `Trouble`."""
        return int(self._chance.choice((0.1, 0.5, 2.0, 4.0, 40.0)) * (0.5 + self._chance.random()) * SECOND)

    def at_read(self) -> str:
        """See `Trouble`."""
        return self._draw(self._reads) or "answer"

    def at_hint(self) -> bool:
        """See `Trouble`."""
        return not self._settings.has("mute") or self._chance.random() < 0.3

    def _draw(self, faults: list[tuple[str, float]]) -> str | None:
        if self.calm or not faults:
            return None
        luck = self._chance.random()
        for fault, rate in faults:
            luck -= rate
            if luck < 0:
                return fault
        return None

    def latency(self) -> Time:
        """See `Trouble`."""
        if not self.calm and self._settings.has("slow_store") and self._chance.random() < 0.02:
            return int(self._chance.random() * 3 * SECOND)
        return int(200 + self._chance.random() * 1_500)


class Scripted:
    """Fails exactly one call of the store: the k-th, in a given way."""

    def __init__(self, at: int = 0, fate: str = "reject") -> None:
        self.calls = 0
        self._at = at
        self._fate = fate

    def at_write(self) -> str:
        """See `Trouble`."""
        return self._next() or "commit"

    def lateness(self) -> Time:
        """See `Trouble`."""
        return 2 * SECOND

    def at_read(self) -> str:
        """See `Trouble`: a question that was answered and whose answer is lost was never answered."""
        fate = self._next()
        if fate is None:
            return "answer"
        return "reject" if fate in ("reject", "unknown", "late") else "crash_before"

    def at_hint(self) -> bool:
        """See `Trouble`."""
        return True

    def _next(self) -> str | None:
        self.calls += 1
        return self._fate if self.calls == self._at else None

    def latency(self) -> Time:
        """See `Trouble`."""
        return 500
