"""All campaigns one after the other, with their figures as JSON.

    python tests/campaigns/run_all.py [--full] [--only SCRIPT ...] [--json FILE]

In short a campaign takes up to a few minutes. `--full` runs each with its own default, which takes hours, and adds
seeded faults (`mutants.py`). Spark's campaign (`stream_kills.py`) runs by itself. Figures are the last lines of each.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Lines of a campaign's output that are its figures.
LAST_LINES = 6


class Campaign(NamedTuple):
    """A script, what it shows, and its options in short."""

    script: str
    shows: str
    short: tuple[str, ...] | None  #: None: only in full


CAMPAIGNS = (
    Campaign("extremes.py", "steps of numbers of any size are exact, or refused", ("--cases", "2000")),
    Campaign("lines.py", "mutated lines of svmlight and Vowpal Wabbit text", ("--lines", "50000")),
    Campaign("cells.py", "mutated lines of CSV and JSON", ("--lines", "50000")),
    Campaign("tables.py", "made-up tables: the same model by every way in and out", ("--tables", "100")),
    Campaign("exports.py", "exports of made-up tables score as the model", ("--tables", "100")),
    Campaign("damage.py", "damaged and forged model files", ("--files", "5000")),
    Campaign("kills.py", "a process that saves is killed", ("--kills", "100")),
    Campaign("resume.py", "`fiol train` is killed and resumed", ("--kills", "20")),
    Campaign("server_kills.py", "`fiol serve` is killed under load", ("--runs", "5")),
    Campaign(
        "server_connections.py",
        "idle and slow connections to `fiol serve`",
        ("--connections", "500", "--slow", "50", "--seconds", "5"),
    ),
    Campaign("interrupts.py", "signals in the middle of long calls", ("--signals", "2", "--rows", "200000")),
    Campaign("threads.py", "threads that share models", ("--calls", "20000")),
    Campaign("rounds.py", "a stack with adversarial members for very long", ("--rounds", "1e6")),
    Campaign("mutants.py", "seeded faults in the code are found by a test", None),
)


def run(campaign: Campaign, full: bool, log: Path) -> dict[str, object]:
    """Run a campaign; return its command, exit code, seconds and its last lines."""
    words = [f"tests/campaigns/{campaign.script}", *(() if full else campaign.short or ())]
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        code = subprocess.run([sys.executable, *words], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return {
        "shows": campaign.shows,
        "command": f"python {' '.join(words)}",
        "exit code": code,
        "seconds": round(time.monotonic() - start),
        "result": "; ".join(" ".join(line.split()) for line in lines[-LAST_LINES:]),
    }


def write(path: Path, found: list[dict[str, object]]) -> None:
    """Write figures with date and platform as JSON."""
    head = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "platform": platform.platform()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "campaigns": found}, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="every campaign with its own default: hours")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="only these, such as kills.py")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    logs = ROOT / "build" / "campaigns"
    logs.mkdir(parents=True, exist_ok=True)
    found: list[dict[str, object]] = []
    for campaign in CAMPAIGNS:
        chosen = campaign.script in options.only if options.only else options.full or campaign.short is not None
        if not chosen:
            continue
        print(f"{campaign.script}: {campaign.shows} ...", flush=True)
        found.append(run(campaign, options.full, logs / f"{campaign.script}.log"))
        print(f"    {found[-1]['result']} (exit code {found[-1]['exit code']}, {found[-1]['seconds']} s)", flush=True)
        if options.json:  # after each campaign: an interrupt keeps the figures so far
            write(options.json, found)
    return 0 if all(each["exit code"] == 0 for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
