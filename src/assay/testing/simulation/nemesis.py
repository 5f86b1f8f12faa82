"""Who kills, stops, pauses and cuts off, at times that the seed decides, and who makes everything well again."""

from typing import TYPE_CHECKING

from assay.core.ids import SECOND
from assay.testing.simulation.hosts import EngineHost, WorkerHost
from assay.testing.simulation.settings import chance_of

if TYPE_CHECKING:
    from assay.testing.simulation.world import World

Victim = EngineHost | WorkerHost


class Nemesis:
    """Plans all blows of a seed in advance."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = chance_of(world.settings.seed, "nemesis")
        self._healed = False

    def plan(self) -> None:
        """Decide who is hit when."""
        world, chance = self._world, self._chance
        for fault in ("kill", "stop", "pause", "cut"):
            victims: list[Victim] = [*world.engines, *world.workers]
            for victim in victims:
                kind = "engine" if isinstance(victim, EngineHost) else "worker"
                if not world.settings.has(fault if fault == "cut" else f"{fault}_{kind}"):
                    continue
                for _ in range(chance.choice((0, 1, 1, 2, 3))):
                    when = int(chance.random() * world.settings.fault_seconds * SECOND)
                    world.loop.post(world.node, when, self._strike, fault, victim)

    def _strike(self, fault: str, victim: Victim) -> None:
        if self._healed:
            return
        self._world.ledger.note(self._world.loop.now, f"{fault} {victim.node}")
        match fault:
            case "kill":
                victim.crash()
            case "stop":
                victim.stop()
            case "pause":
                self._pause(victim)
            case _:
                self._cut(victim)

    def _pause(self, victim: Victim) -> None:
        node = victim.node
        if node.alive and not node.paused:
            self._world.loop.pause(node)
            delay = int(self._chance.choice((0.1, 1.0, 5.0, 12.0, 25.0)) * SECOND)
            self._world.loop.post(self._world.node, delay, self._world.loop.resume, node)

    def _cut(self, victim: Victim) -> None:
        self._world.network.cut.add(victim.name)
        delay = int(self._chance.choice((0.5, 3.0, 12.0)) * SECOND)
        self._world.loop.post(self._world.node, delay, self._world.network.cut.discard, victim.name)

    def heal(self) -> None:
        """No more faults from now on; what is down comes up again by itself."""
        self._healed = True
        world = self._world
        world.ledger.note(world.loop.now, "healed")
        world.chaos.calm = world.network.calm = True
        world.network.cut.clear()
        for node in [*(host.node for host in world.engines), *(host.node for host in world.workers)]:
            world.loop.resume(node)
