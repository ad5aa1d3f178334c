"""Lines as the package vowpalwabbit understands them, kept in vw_lines.json; running this file asks it again."""

import json
import re
from pathlib import Path

from sklearn.utils import murmurhash3_32

from fiol.readers.namespaces import split_name

RECORD = Path(__file__).parent / "vw_lines.json"
LINES = [
    "1 |f a b:2", "1|f a", "1 2 tag|f a:3|g b", "| a b:0 c:1e-3", "|f:2 a:3 b |g:0.5 c", "|f :2 :3 x :4", "1 |f a|b",
    "'t |f a", "1 '|f a", "1 |f a\tb", "1 |f  a   b ", "1 || a", "1 |f a:1 a:2", "|f 0 1 9", "1 |f é", " 1 |f a",
    "1 |f:2", "1 |f a:+2 b:-2 c:.5 d:5.", "-1 0.25 'my-tag |one 12 x_y:1.5e2 |two:-3 x_y |one z", "|a:0 b c |d e:0",
    "3 |f 1:1 2:1e-20", "0 |f a:1e30", "+1 | happiness:true", "1 |f:2 a:x b:2 :y", "1 |f a:x:2", "1 | p^the |p the",
    "1 |p^q the |p q^the | p^q^the", "1 |f a:é", "1 |f a\x00b", "1 |f a=x a:x",
]  # fmt: skip
#: Lines that are refused here, and what the package makes of them: other numbers than they say, or a warning.
REFUSED = [
    "-1 0.5 0.25 'tag |f a", "1 'x y |f a", "1 |f a:-x", "1 |f a: x", "1 |f a:x|g b", "1 |f a:nano", "1 |f a:",
    "1 |f a:1:2", "|f:x a", "|:2 a", "1 2", "x |f a", "1 2 3 4 |f a", "1 -1 |f a", "nan |f a", "1 |f a:nan",
    "1 |f a:inf",
]  # fmt: skip
BITS = 24


def vowpal_hash(name):
    """Return the hash that Vowpal Wabbit has for a name of ours: digits are a number, all else murmur3."""
    space, feature = split_name(name)
    seed = 0
    for part in [*filter(None, [space]), *feature.split(":", 1)]:  # a text value is hashed from its name's hash
        seed = int(part) + seed if re.fullmatch("[0-9]+", part) else murmurhash3_32(part.encode(), seed, positive=True)
    return seed % 2**BITS


def workspace():
    """Return a model of the package that reads lines."""
    from vowpalwabbit import Workspace

    return Workspace(quiet=True, noconstant=True, b=BITS)


def understood_line(model, line):
    """Target, weight, tag and features (hash, value) of a line, by the package."""
    row = model.parse(line)
    features = [
        (row.feature(space, k) % 2**BITS, row.feature_weight(space, k))
        for space in range(row.num_namespaces())
        for k in range(row.num_features_in(space))
    ]
    target = row.get_simplelabel_label()
    found = [None if target > 3e38 else target, row.get_simplelabel_weight(), row.get_tag() or None, sorted(features)]
    model.finish_example(row)
    return found


def understood(lines):
    """Target, weight, tag and features (hash, value) of lines, by the package."""
    model = workspace()
    return [understood_line(model, line) for line in lines]


if __name__ == "__main__":
    RECORD.write_text(json.dumps(dict(zip(LINES, understood(LINES), strict=True)), indent=0, ensure_ascii=False) + "\n")
