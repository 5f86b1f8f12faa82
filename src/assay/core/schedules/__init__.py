"""Schedules: cron expressions, due times, and the rules of fires."""
