"""The data types of the core: ids, events, commands, requests, effects and the state of a run."""
