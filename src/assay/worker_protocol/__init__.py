"""The protocol between an engine and its workers: messages, and an object for each end; no I/O.

`worker_side.WorkerEndpoint` and `engine_side.EngineEndpoint` accept and return the structs of `messages`. Drivers
transport them: as bytes over POST requests or a WebSocket, with `encode` and `decode`, or unchanged in memory.
"""
