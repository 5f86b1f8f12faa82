"""A module that ends the process which imports it."""

import multiprocessing
import os

if multiprocessing.current_process().name == "assay-activity":
    os._exit(9)


def never() -> None: ...
