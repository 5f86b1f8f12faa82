"""`ctx.logger`: silent on replay; holds records back while a turn is speculative."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.runtime import Execution


class WorkflowLogger:
    """A logger that writes each record once, however often the code is replayed."""

    def __init__(self, execution: "Execution") -> None:
        self._run = execution
        self._logger = logging.getLogger(f"assay.workflow.{execution.definition.name}")

    def debug(self, message: object, *args: object, **options: Any) -> None:
        """Log at level DEBUG.

        Args:
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.debug`.
        """
        self.log(logging.DEBUG, message, *args, **options)

    def info(self, message: object, *args: object, **options: Any) -> None:
        """Log at level INFO.

        Args:
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.info`.
        """
        self.log(logging.INFO, message, *args, **options)

    def warning(self, message: object, *args: object, **options: Any) -> None:
        """Log at level WARNING.

        Args:
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.warning`.
        """
        self.log(logging.WARNING, message, *args, **options)

    def error(self, message: object, *args: object, **options: Any) -> None:
        """Log at level ERROR.

        Args:
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.error`.
        """
        self.log(logging.ERROR, message, *args, **options)

    def exception(self, message: object, *args: object, **options: Any) -> None:
        """Log at level ERROR with the current exception.

        Args:
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.exception`.
        """
        self.log(logging.ERROR, message, *args, exc_info=True, **options)

    def log(self, level: int, message: object, *args: object, **options: Any) -> None:
        """Log at a level.

        Args:
            level: The level, as in `logging`.
            message: The message, with `%` placeholders for `args`.
            *args: The arguments of the message.
            **options: As for `logging.Logger.log`.
        """
        if self._run.commands.repeating or self._run.loop.leaving or not self._logger.isEnabledFor(level):
            return
        key = self._run.key
        options["extra"] = {"workflow_id": key.workflow_id, "run_id": key.run_id, **(options.get("extra") or {})}
        if self._run.speculation.active:
            self._run.speculation.held_logs.append(lambda: self._logger.log(level, message, *args, **options))
        else:
            self._logger.log(level, message, *args, **options)
