"""Files of Vowpal Wabbit's text: labels, weights, tags and features of all lines are those of the vowpalwabbit package.

    python tests/campaigns/vw_files.py --data DIR [--lines N]

Files in DIR, and in folders within, are read a line at a time, at most N lines of each; compressed ones as well. A line
agrees if its features have the same hashes and values (to 1e-6: the package stores 32-bit floats), and its label,
weight and tag are the same. A label that is a name is read with the option `labels=names`, and then it is the text
before the bar that has to be the same. A line that fiol refuses is counted, and one that differs makes the script fail.
Lines with a NUL byte are counted apart: the package ends them there.
"""

import argparse
import collections
import io
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.readers import vowpal

from fiol.readers.batch import BadLineError
from fiol.readers.reader_config import ReaderConfig
from fiol.readers.sources import Sources

#: How many lines of every outcome are shown.
SHOWN = 5


def lines_of(path, most):
    """Return the first lines of a file."""
    data = bytearray()
    for block in Sources(str(path)).blocks():
        data += block.data[: block.size]
        if data.count(b"\n") >= most:
            break
    return bytes(data).split(b"\n")[:most]


def own_row(line, labels):
    """Return label, weight, tag and the sum of values by hash that fiol reads; None for an empty line."""
    config = ReaderConfig("vw", options={"labels": labels})
    for batch in config.batches(io.BytesIO(line + b"\n"), prefetch=False):
        sums = collections.Counter()
        for i, value in zip(batch.X.chunk.indices.tolist(), batch.X.chunk.data.tolist(), strict=True):
            sums[vowpal.vowpal_hash(batch.X.names[i])] += value
        label = None if batch.y is None else batch.y[0]
        weight = 1.0 if batch.weights is None else batch.weights[0]
        return label, weight, batch.tags[0] if batch.tags else "", sums
    return None


def same_values(own, theirs):
    """Return whether two sums of values by hash agree to the digits of 32-bit floats."""
    return all(math.isclose(own[h], theirs[h], rel_tol=1e-6, abs_tol=1e-30) for h in {*own, *theirs})


def compare(line, model):
    """Return what comes of a line: an outcome, and a reason for one that is no agreement."""
    labels = "numbers"
    try:
        own = own_row(line, labels)
    except BadLineError as error:
        if "labels=names" not in str(error) and "labels='names'" not in str(error):
            return "refused", str(error)
        try:
            own = own_row(line, labels := "names")
        except BadLineError as other:
            return "refused", str(other)
    if own is None:
        return "empty", ""
    label, weight, tag, sums = own
    their_label, their_weight, their_tag, features = vowpal.understood_line(model, line.decode())
    theirs = collections.Counter()
    for h, value in features:
        theirs[h] += value
    if not same_values(sums, theirs):
        return "differs", f"features {dict(sums)}, not {dict(theirs)}"
    if labels == "names":
        before = line.partition(b"|")[0].split()
        return ("agrees, named label", "") if before[:1] == [str(label).encode()] else ("differs", f"label {label!r}")
    found = [None if label is None or math.isnan(label) else label, weight, tag or None]
    wanted = [their_label, their_weight, their_tag]
    same = all(a == b or (a and b and not isinstance(a, str) and math.isclose(a, b, rel_tol=1e-6))
               for a, b in zip(found, wanted, strict=True))  # fmt: skip
    return ("agrees", "") if same else ("differs", f"label, weight and tag {found}, not {wanted}")


def run(folder, most):
    """Compare the lines of all files of a folder; return the number of every outcome, and print some lines of each."""
    model, counts, shown = vowpal.workspace(), collections.Counter(), collections.Counter()
    for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
        for number, line in enumerate(lines_of(path, most), 1):
            outcome, reason = ("NUL", "") if b"\0" in line else compare(line.rstrip(b"\r"), model)
            counts[outcome] += 1
            shown[outcome] += bool(reason)
            if reason and shown[outcome] <= SHOWN:
                print(f"{path.name}:{number}: {outcome}: {reason[:300]}")
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="DIR")
    parser.add_argument("--lines", type=int, default=5000, metavar="N")
    arguments = parser.parse_args()
    found = run(arguments.data, arguments.lines)
    for outcome, count in sorted(found.items()):
        print(f"{outcome:20} {count:9,}")
    agree = found["agrees"] + found["agrees, named label"]
    print(f"{agree:,} of {sum(found.values()) - found['empty']:,} lines agree")
    sys.exit(1 if found["differs"] else 0)
