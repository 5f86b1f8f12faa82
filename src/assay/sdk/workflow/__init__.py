"""Contexts of workflows and activities, their options, and the replay loop."""
