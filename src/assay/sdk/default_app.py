"""The App of programs that do not make one: what `assay.workflow` registers with and a client serves unless told."""

from typing import Final

from assay.sdk.app import App

DEFAULT_APP: Final = App()
