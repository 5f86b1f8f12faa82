"""Schedules: cron expressions, due times, and the rules of a fire."""
