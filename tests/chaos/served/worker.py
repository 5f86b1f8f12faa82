"""What `assay run` serves while processes are killed; CHAOS_FOLDER says where it writes down what it does."""

import os
from pathlib import Path

from tests.chaos.workflows import app, record_effects_in

record_effects_in(Path(os.environ["CHAOS_FOLDER"]))

__all__ = ["app"]
