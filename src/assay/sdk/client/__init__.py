"""The client: verbs of the engine for programs, over HTTP or embedded."""
