"""Bugs that were made, or could be, planted one at a time: each must be found, else checkers or load have a hole."""

from assay.testing.simulation.mutants.activities import ACTIVITIES
from assay.testing.simulation.mutants.clocks import CLOCKS
from assay.testing.simulation.mutants.families import FAMILIES
from assay.testing.simulation.mutants.planting import Mutant
from assay.testing.simulation.mutants.retries import RETRIES
from assay.testing.simulation.mutants.turns import SINGLE_CONDITIONS, TURNS
from assay.testing.simulation.mutants.working import WORKING
from assay.testing.simulation.mutants.writing import WRITING

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for mutant in (*TURNS, *ACTIVITIES, *FAMILIES, *RETRIES, *WRITING, *WORKING, *CLOCKS)
}

__all__ = ["MUTANTS", "SINGLE_CONDITIONS", "Mutant"]
