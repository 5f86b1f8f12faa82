"""Free slots of a worker: how much more work the engine may lease to the worker."""


class Slots:
    """The free slots of one worker: for workflow tasks, for activities, and processes for activities that need one.

    An activity that runs in a process takes an activity slot and a process. A count below zero means more leases
    than slots: a process exited after the worker had offered its slot.
    """

    __slots__ = ("activities", "process_activities", "processes", "tasks", "withheld")

    def __init__(
        self,
        tasks: int = 0,
        activities: int = 0,
        process_activities: frozenset[str] = frozenset(),
        processes: int = 0,
    ) -> None:
        self.tasks = tasks
        self.activities = activities
        self.process_activities = process_activities
        """The names of activities to run in a process."""
        self.processes = processes
        self.withheld: frozenset[str] = frozenset()
        """The names of activities that the worker accepts no attempts of at present."""

    @property
    def exhausted(self) -> frozenset[str]:
        """Return the names of activities that cannot be leased although an activity slot is free."""
        return self.process_activities | self.withheld if self.processes <= 0 else self.withheld

    def reserve(self, activity: str | None = None) -> None:
        """Reserve the slot of an activity with this name, or of a workflow task if there is no name."""
        if activity is None:
            self.tasks -= 1
        else:
            self.activities -= 1
            if activity in self.process_activities:
                self.processes -= 1

    def release(self, activity: str | None = None) -> None:
        """Release the slot of an activity with this name, or of a workflow task if there is no name."""
        if activity is None:
            self.tasks += 1
        else:
            self.activities += 1
            if activity in self.process_activities:
                self.processes += 1
