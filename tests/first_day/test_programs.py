"""Short programs of a new user that went wrong once; each begins in an empty folder."""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60
CHARGED_ONCE = """
import os, sys
from assay import workflow

@workflow.activity
def charge(order):
    with open("charges", "a") as file:
        file.write("x")

@workflow.define
async def Checkout(ctx, order):
    await ctx.execute_activity(charge, order)
    return "shipped"

workflow.connect("sqlite://app.db")
result = workflow.run(Checkout, {"item": "book"}, workflow_id="order-1")
if "first" in sys.argv:
    os.kill(os.getpid(), 9)
print(result, len(open("charges").read()))
"""
UNRECORDABLE = """
import logging
from assay import workflow, ActivityError
logging.disable()
charges = []

@workflow.activity
def charge(x):
    charges.append(x)
    return {"raw": object()}

@workflow.define
async def Buy(ctx):
    try:
        await ctx.execute_activity(charge, 1)
    except ActivityError as error:
        return error.kind

workflow.connect("sqlite://app.db")
print(workflow.run(Buy), len(charges))
"""
CELL_AGAIN = """
from assay import workflow

workflow.connect("sqlite://app.db")
for number, text in enumerate(("hi", "HI")):
    cell = f"@workflow.define\\nasync def Hi(ctx, name): return '{text} ' + name"
    exec(compile(cell, f"<cell {number}>", "exec"), globals())
    print(workflow.run(Hi, "Ada"))
"""
OWN_KIND = """
import logging
from assay import ActivityError, Failure, workflow
logging.disable()
attempts = []

@workflow.activity
def charge(x):
    attempts.append(x)
    raise Failure("no", kind="Declined")

@workflow.define
async def Buy(ctx):
    try:
        await ctx.execute_activity(charge, 1, non_retryable=["Declined"])
    except ActivityError as error:
        return f"{error.kind} {error.type}"

workflow.connect("sqlite://app.db")
print(workflow.run(Buy), len(attempts))
"""
CALLED_LIKE_A_FUNCTION = """
import logging
from assay import WorkflowFailed, workflow
logging.disable()

@workflow.activity
def charge(order): return "charged"

@workflow.define
async def Buy(ctx): return charge("x")

workflow.connect("sqlite://app.db")
try:
    workflow.run(Buy)
except WorkflowFailed as error:
    print("await ctx.execute_activity(charge, order)" in str(error))
"""
ALL_OF_A_LIST = """
from assay import workflow

@workflow.define
async def W(ctx): await ctx.wait_for_signal("end")

workflow.connect("sqlite://app.db")
for number in range(120):
    workflow.start(W, workflow_id=f"w-{number}")
print(sum(1 for _ in workflow.list(type="W")), len(workflow.list(status="open")))
"""
CLIENT_IN_ACTIVITY = """
from assay import Client, workflow

@workflow.activity
async def nudge(workflow_id):
    async with await Client.connect("sqlite://app.db") as client:
        await client.signal(workflow_id, "go", "on")

@workflow.define
async def Other(ctx): return await ctx.wait_for_signal("go")

@workflow.define
async def Main(ctx): await ctx.execute_activity(nudge, "other")

workflow.connect("sqlite://app.db")
workflow.start(Other, workflow_id="other")
workflow.run(Main)
print(workflow.result("other"))
"""
WRONG_RESULT = """
import logging
from assay import WorkflowFailed, workflow
logging.disable()

@workflow.define
async def B(ctx) -> str: return 3

workflow.connect("sqlite://app.db")
try:
    workflow.run(B, workflow_id="b")
except WorkflowFailed as error:
    print(error.kind, workflow.describe("b").status)
"""
FORGOTTEN_SLEEP = """
import logging, time
from assay import WorkflowFailed, workflow
logging.disable()

@workflow.define
async def Nap(ctx): time.sleep(1)

workflow.connect("sqlite://app.db")
try:
    workflow.run(Nap)
except WorkflowFailed as error:
    print("ctx.sleep" in str(error))
"""
MISNAMED_CONTEXT = """
from assay import Invalid, workflow

try:
    @workflow.define
    async def W(context, x): ...
except Invalid as error:
    print("named ctx" in str(error))
"""


def run(folder: Path, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py", *arguments]
    return subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (UNRECORDABLE, "INVALID 1\n"),
        (CELL_AGAIN, "hi Ada\nHI Ada\n"),
        (OWN_KIND, "UNKNOWN Declined 1\n"),
        (CALLED_LIKE_A_FUNCTION, "True\n"),
        (ALL_OF_A_LIST, "120 120\n"),
        (CLIENT_IN_ACTIVITY, "on\n"),
        (WRONG_RESULT, "INVALID FAILED\n"),
        (FORGOTTEN_SLEEP, "True\n"),
        (MISNAMED_CONTEXT, "True\n"),
    ],
)
def test_a_program_prints(program: str, output: str, tmp_path: Path):
    done = run(tmp_path, program)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


def test_a_program_that_is_killed_after_its_result_charges_once(tmp_path: Path):
    assert run(tmp_path, CHARGED_ONCE, "first").returncode == -9
    assert run(tmp_path, CHARGED_ONCE).stdout == "shipped 1\n"
