"""Values on their way to and from JSON: converter, annotations, signatures, failures."""
