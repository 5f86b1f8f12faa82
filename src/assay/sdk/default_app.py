"""The default app: `assay.workflow` registers with it, and clients serve it unless given another."""

from typing import Final

from assay.sdk.app import App

DEFAULT_APP: Final = App()
