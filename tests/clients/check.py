"""The little that every Python driver needs: named checks that can fail, deadlines, one summary."""
import asyncio
import os
import sys
import traceback

SCALE = float(os.environ.get("SCALE") or 6)
_counts = {"ok": 0, "FAIL": 0}


def check(name, condition, detail=None):
    word = "ok" if condition else "FAIL"
    _counts[word] += 1
    print(f"{word:4} {name}" + ("" if detail is None else f"  ({detail})"), flush=True)


async def within(seconds, what, awaitable):
    try:
        return await asyncio.wait_for(awaitable, seconds * SCALE)
    except asyncio.TimeoutError:
        raise AssertionError(f"nothing after {seconds * SCALE:g} s: {what}") from None


def run(steps):
    """Runs the async steps in order, each given the same state. One that raises is a failed check."""

    async def main():
        state = {}
        for step in steps:
            before = sum(_counts.values())
            name = (step.__doc__ or step.__name__).strip()
            try:
                await step(state, name)
                if sum(_counts.values()) == before:
                    check(name, False, "checked nothing")
            except Exception as e:  # a driver reports and goes on
                check(name, False, f"{type(e).__name__}: {e}")
                if os.environ.get("VERBOSE"):
                    traceback.print_exc()
        for close in reversed(state.get("closers", [])):
            await close()

    asyncio.run(main())
    print(f"{_counts['ok']} passed, {_counts['FAIL']} failed")
    sys.exit(1 if _counts["FAIL"] else 0)


def arguments():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} URL TOKEN")
    return sys.argv[1].rstrip("/"), sys.argv[2]
