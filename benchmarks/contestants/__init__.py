"""The engines that are measured, each in a process of its own; only the standard library and the engine itself."""
