"""The replay loop: runs workflow code deterministically over a recorded history."""
