"""Failure groups, as the API uses them: the port of the store, under the name of this package."""

from assay.storage.failure_ports import Failures

__all__ = ["Failures"]
