"""The version of the distribution, read by the build and by `assay.__version__`."""

__version__ = "0.1.0"
