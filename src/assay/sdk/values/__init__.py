"""Values to JSON and back: converter, annotations, signatures, failures."""
