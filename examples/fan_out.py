"""Work in parallel: one activity per document, all at once, and a step at the end that puts the results together.

    python -m examples.fan_out

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file fan_out.db.
"""

import asyncio
import os
from collections import Counter

from assay import Context, workflow

DOCUMENTS = {
    "one": "the quick brown fox jumps over the lazy dog",
    "two": "the dog sleeps and the fox runs",
    "three": "a fox is not a dog",
}


@workflow.define
async def CountWords(ctx: Context, documents: dict[str, str]) -> dict[str, int]:
    # Plain asyncio: every activity is scheduled at once, and a crash repeats only those that were not done.
    counts = await asyncio.gather(*(ctx.execute_activity(count, text) for text in documents.values()))
    # An inline step: no queue, no registration, and its result is recorded like that of an activity.
    return await ctx.run("merge", merge, counts)


@workflow.activity
async def count(text: str) -> dict[str, int]:
    print(f"counting {len(text)} characters")
    return Counter(text.split())


def merge(counts: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in counts:
        total.update(part)
    return total


def main() -> None:
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://fan_out.db"))
    found = workflow.run(CountWords, DOCUMENTS)
    for word, times in sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))[:3]:
        print(f"{word:<6} {times}")


if __name__ == "__main__":
    main()
