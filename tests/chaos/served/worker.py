"""What `assay run` serves in these scenarios; CHAOS_FOLDER says where it writes down what it does."""

import os
from pathlib import Path

from assay.sdk.client.http.reconnector import Reconnector
from tests.chaos.workflows import app, record_effects_in

record_effects_in(Path(os.environ["CHAOS_FOLDER"]))
Reconnector.by_post = "CHAOS_BY_POST" in os.environ

__all__ = ["app"]
