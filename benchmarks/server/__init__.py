"""The engine as a server: engine, worker and client as three processes on one machine."""
