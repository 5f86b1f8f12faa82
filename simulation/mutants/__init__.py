"""Bugs that were made, or could be, planted one at a time: each must be found, else checkers or load have a hole."""

from simulation.mutants.activities import ACTIVITIES
from simulation.mutants.clocks import CLOCKS
from simulation.mutants.families import FAMILIES
from simulation.mutants.held_orders import HELD_ORDERS
from simulation.mutants.long_turns import LONG_TURNS
from simulation.mutants.memory import MEMORY
from simulation.mutants.planting import Mutant
from simulation.mutants.reading import READING
from simulation.mutants.retries import RETRIES
from simulation.mutants.turns import SINGLE_CONDITIONS, TURNS
from simulation.mutants.versions import VERSIONS
from simulation.mutants.watching import WATCHING_BUGS
from simulation.mutants.working import WORKING
from simulation.mutants.writing import WRITING

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        *TURNS,
        *ACTIVITIES,
        *FAMILIES,
        *RETRIES,
        *READING,
        *WRITING,
        *WORKING,
        *CLOCKS,
        *MEMORY,
        *HELD_ORDERS,
        *LONG_TURNS,
        *WATCHING_BUGS,
        *VERSIONS,
    )
}

__all__ = ["MUTANTS", "SINGLE_CONDITIONS", "Mutant"]
