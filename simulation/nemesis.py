"""Who kills, stops, pauses and cuts off, at times that the seed decides, and who makes everything well again."""

from typing import TYPE_CHECKING

from assay.core.model.ids import SECOND, Time
from assay.engine.presence import SUSPENDED_AFTER
from simulation.hosts import EngineHost, WorkerHost
from simulation.loop import Node
from simulation.settings import chance_of
from simulation.store import Database

if TYPE_CHECKING:
    from simulation.world import World

Victim = EngineHost | WorkerHost
Machine = EngineHost | Database


class Nemesis:
    """Plans all blows of a seed in advance."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = chance_of(world.settings.seed, "nemesis")
        self._healed = False
        self._paused: dict[str, Time] = {}
        """When the current pause of each machine began."""
        self.set_at: Time = 0
        """What the wall clock that counts showed when it had been set for the last time."""

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
        if world.settings.has("step_clock"):
            self._plan_steps()

    def _plan_steps(self) -> None:
        """Set the clock of the machine or of the database, and that of each engine that shares one."""
        world, chance = self._world, chance_of(self._world.settings.seed, "steps")
        machines: list[Machine] = [world.database] if world.settings.shared else []
        for machine in machines + list(world.engines):
            times = sorted(chance.random() * world.settings.fault_seconds for _ in range(chance.choice((2, 3, 4))))
            for when in times:
                shift = int(chance.choice((-3_600, -60, -20, 0, 0, 20, 60, 3_600)) * SECOND)
                world.loop.post(world.node, int(when * SECOND), self._step, machine, shift)

    def _step(self, machine: Machine, shift: Time) -> None:
        if not self._healed:
            self._set(machine, shift)

    def _set(self, machine: Machine, shift: Time) -> None:
        self._world.ledger.note(self._world.loop.now, f"a wall clock is set to {shift / SECOND:+g} s")
        machine.skew = shift
        if machine is self._world.timed_by:
            self.set_at = self._world.wall()

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
            self._world.loop.post(self._world.node, delay, self._resume, victim, node, self._world.loop.now)
            self._paused[victim.name] = self._world.loop.now

    def _resume(self, victim: Victim, node: Node, since: Time) -> None:
        if node.paused and isinstance(victim, EngineHost):
            self._note_absence(victim, since)
        self._world.loop.resume(node)

    def _note_absence(self, host: EngineHost, since: Time) -> None:
        """Note a pause that the engine must notice; leases may end as usual after a shorter pause."""
        if self._world.loop.now - since > SUSPENDED_AFTER:
            host.resumed = self._world.loop.now

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
        if world.settings.has("step_clock"):
            machines: list[Machine] = [world.database, *world.engines]
            for machine in machines:
                self._set(machine, 0)
        for host in world.engines:
            if host.node.paused:  # the end of the faults may have made the pause shorter than planned
                self._note_absence(host, self._paused[host.name])
        for node in [*(host.node for host in world.engines), *(host.node for host in world.workers)]:
            world.loop.resume(node)
