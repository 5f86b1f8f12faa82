"""Deterministic simulation: the real engine, workers and core in a world made from one seed."""
