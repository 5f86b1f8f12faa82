"""How fast assay is, next to the fastest engines of its kind, measured in the same minutes on the same machine."""
