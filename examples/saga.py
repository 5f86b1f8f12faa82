"""A saga: several bookings that belong together. If one fails, those before it are undone, last one first.

    python -m examples.saga

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file saga.db.
"""

import logging
import os

from assay import ActivityError, Context, Failure, workflow


@workflow.define
async def BookTrip(ctx: Context, traveller: str) -> str:
    async with ctx.saga() as saga:
        for book, cancel in ((book_flight, cancel_flight), (book_hotel, cancel_hotel), (book_car, cancel_car)):
            # First: a booking whose answer was lost may have been made, so it has to be undone as well.
            saga.add(cancel, traveller, max_attempts=0)
            await ctx.execute_activity(book, traveller)
    return f"{traveller} is going on a trip"


@workflow.activity
def book_flight(traveller: str) -> None:
    print(f"  flight booked for {traveller}")


@workflow.activity
def cancel_flight(traveller: str) -> None:
    print(f"  flight cancelled for {traveller}")


@workflow.activity
def book_hotel(traveller: str) -> None:
    print(f"  hotel booked for {traveller}")


@workflow.activity
def cancel_hotel(traveller: str) -> None:
    print(f"  hotel cancelled for {traveller}")


@workflow.activity
def book_car(traveller: str) -> None:
    if traveller == "Max":
        raise Failure("no driving licence", retryable=False)
    print(f"  car booked for {traveller}")


@workflow.activity
def cancel_car(traveller: str) -> None:
    print(f"  car cancelled for {traveller}, if there was one")


def main() -> None:
    logging.getLogger("assay").setLevel(logging.ERROR)  # what fails below is meant to, and no news
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://saga.db"))
    for traveller in ("Ada", "Max"):
        print(f"booking a trip for {traveller}")
        try:
            print(workflow.run(BookTrip, traveller))
        except Failure as failure:
            reason = failure.cause if isinstance(failure.cause, ActivityError) else failure
            print(f"{traveller} stays at home: {reason.message}")


if __name__ == "__main__":
    main()
