"""Where assay's time goes in a workload: a sampling profile of its process, as microseconds per workflow.

Samples are taken from outside by py-spy, which does not slow the process down as a tracing profiler does: functions
that are called often would look worse than they are.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

from benchmarks.environments import environment
from benchmarks.matches import assay_command
from benchmarks.plan import Case
from benchmarks.process import Contestant, running

RATE = 500
LINES = 40
_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$")


async def profile(case: Case, style: str, folder: Path) -> str:
    """The hot list of a case; py-spy may need the right to look into processes."""
    async with running("assay", assay_command(f"sqlite://{folder}/profile.db"), folder) as ours:
        await ours.ask(case.workload, style, case.size)
        stacks = folder / "stacks.txt"
        answer = await _sampled(ours, case, style, stacks)
    workflows = case.size.get("n", 1)
    if "error" in answer:
        return f"{case.name} failed: {answer['error']}"
    total = answer["cpu_seconds"]
    shown = _hot_list(stacks.read_text(encoding="utf-8"), total / workflows * 1e6)
    return f"{case.name}, {style}: {total / workflows * 1e6:,.0f} us of CPU per workflow\n{shown}"


async def _sampled(ours: Contestant, case: Case, style: str, stacks: Path) -> dict[str, object]:
    """Run the case with a sampler attached, which is stopped when the case is done."""
    sampler = await asyncio.create_subprocess_exec(
        str(environment("profiler") / "py-spy"),
        *("record", "--pid", str(ours.pid), "--rate", str(RATE), "--format", "raw", "--output", str(stacks)),
        *("--duration", "3600", "--threads", "--nonblocking"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await asyncio.sleep(1)  # it has attached by then
    answer = await ours.ask(case.workload, style, case.size)
    if sampler.returncode is None:
        sampler.send_signal(2)
    failed = await sampler.wait()
    return {"error": "py-spy could not sample the process; it may need root"} if failed else dict(answer)


def _hot_list(stacks: str, cost: float) -> str:
    """Functions by their own time and by their time with what they call; lines by their own time."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    total = 0
    for entry in stacks.splitlines():
        stack, _, count = entry.rpartition(" ")
        frames = [found for frame in stack.split(";") if (found := _FRAME.match(frame))]
        if not frames or _idle(frames[-1]["function"]):
            continue
        total += int(count)
        own[_name(frames[-1])] += int(count)
        lines[f"{_name(frames[-1])}:{frames[-1]['line']}"] += int(count)
        whole.update(dict.fromkeys({_name(frame) for frame in frames}, int(count)))
    parts = (("own time by function", own), ("own time by line", lines), ("with callees", whole))
    return "\n".join(_section(title, counts, cost / max(total, 1)) for title, counts in parts)


def _idle(function: str) -> bool:
    return function in {"wait", "_worker", "readline", "select"}


def _name(frame: re.Match[str]) -> str:
    file = frame["file"].split("site-packages/")[-1].split("src/")[-1]
    return f"{frame['function']}  {file}"


def _section(title: str, counts: Counter[str], each: float) -> str:
    total = sum(counts.values())
    shown = [f"{count * each:9.1f} us  {name}" for name, count in counts.most_common(LINES)]
    return f"\n{title} ({total} samples)\n" + "\n".join(shown)
