"""The worker: runs workflow code, steps and activities of one task queue."""
