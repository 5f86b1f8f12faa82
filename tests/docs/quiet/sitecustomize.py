"""Loaded by every Python that the pages start: what they log of failures, which are meant, is not shown on them."""

import logging

errors = logging.StreamHandler()
errors.setLevel(logging.ERROR)
logging.getLogger("assay").addHandler(errors)
