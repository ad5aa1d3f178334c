"""A model as Vowpal Wabbit writes one for people, in the form of `--invert_hash`: lines of `name:hash:weight`.

Vowpal Wabbit reads neither this form nor that of `--readable_model` back; scripts and tools for its models do.

- Lines before `:0` say what it is: `bits`, the labels, how pairs were made.
- The hash is Vowpal Wabbit's own of the name (`vw_hash`), modulo 2^bits: 18, its default, or as asked for. A learner
  whose names are hashed has lines of `number:weight`, as `--readable_model` has them; the numbers are those of fiol.
- Features in a namespace are `space^name`. The constant is `Constant`, whose hash is that of Vowpal Wabbit's.
- A name that has blanks, bars or colons, which Vowpal Wabbit's have not, is written as in addresses of the web
  (`New%20York`), and hashed so: that is how `fiol convert --to vw` writes it.
- A weight per class: `name:hash[k]:weight` with k from 0, as `--oaa` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fiol.exports.linear import ExportedModel, NoExportError, linear_model
from fiol.features.interactions import TIMES
from fiol.readers.namespaces import full_name, split_name
from fiol.readers.writing import number_text, percent_encoded

#: Bits of the table that Vowpal Wabbit has by default.
VW_BITS = 18
#: What Vowpal Wabbit calls the constant, and its hash.
VW_CONSTANT, VW_CONSTANT_HASH = "Constant", 11650396
#: By this number the hash of a product is made.
FNV_PRIME = 16777619
MASK_32 = 2**32 - 1


def vw_text(learner: Any, bits: int = VW_BITS) -> str:
    """The model as text; `bits` as Vowpal Wabbit's `-b`, which learners that hash names have themselves.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), intercept=False, compiled=False)
    >>> learner.learn_named({"a^x": 1.0}, y=1.0), learner.rounds
    (0.0, 1)
    >>> print(vw_text(learner).splitlines()[-1] == f"a^x:55432:{learner.weights[0]}")
    True
    """
    model = linear_model(learner)
    if model.coding is not None and model.hashing is not None:
        raise NoExportError("names that are hashed are not known any more: train without --bits to export them")
    return "".join(f"{line}\n" for line in [*head_lines(model, bits), *weight_lines(model, bits)])


def head_lines(model: ExportedModel, bits: int) -> Iterator[str]:
    """What stands above the weights."""
    yield "Version fiol"
    yield f"Id {model.loss.alias or type(model.loss).__name__}"
    if model.labels is not None:
        yield "labels:" + ",".join(percent_encoded(str(label)) for label in model.labels)
    yield f"bits:{bits if model.hashing is None else model.hashing.bits}"
    if model.pairs:
        yield "options:" + "".join(f" --interactions {','.join(map(percent_encoded, pair))}" for pair in model.pairs)
    yield ":0"


def weight_lines(model: ExportedModel, bits: int) -> Iterator[str]:
    """A line per weight that is not 0, the constant first."""
    size = 2**bits
    if model.intercepts.any():
        yield from lines_of_weights(VW_CONSTANT, VW_CONSTANT_HASH % size, model.intercepts.tolist())
    for name, weights in model.entries():
        if model.hashing is not None:
            yield from lines_of_weights(None, int(name), weights)
        else:
            written = full_name(*(part and percent_encoded(part) for part in split_name(str(name))))
            yield from lines_of_weights(written, vw_hash(written, bool(model.pairs)) % size, weights)


def lines_of_weights(name: str | None, number: int, weights: list[float]) -> Iterator[str]:
    """The weights of one feature."""
    before = "" if name is None else f"{name}:"
    for k, weight in enumerate(weights):
        if weight != 0.0:
            place = f"[{k}]" if len(weights) > 1 else ""
            yield f"{before}{number}{place}:{number_text(weight)}"


def vw_hash(name: str, add_interactions: bool = False) -> int:
    """Vowpal Wabbit's hash of a feature `space^name`, before it is cut to bits; with `add_interactions`, a * joins factors.

    A namespace is hashed by murmur3 from seed 0, a name from the hash of its namespace, but a number n in a namespace
    of hash h is n + h. A product of features h1, h2, ... is the hash (h1 * 16777619) ^ h2, and so on.

    >>> vw_hash("a^x") % 2**18, vw_hash("17") % 2**18, vw_hash("a^x*b^z", add_interactions=True) % 2**18
    (55432, 17, 80151)
    """
    if add_interactions and TIMES in name:
        found = 0
        for factor in name.split(TIMES):
            found = (found * FNV_PRIME) ^ vw_hash(factor)
        return found
    space, feature = split_name(name)
    seed = word_hash(space, 0) if space else 0
    return word_hash(feature, seed)


def word_hash(word: str, seed: int) -> int:
    """The hash of a word, numbers being their own."""
    if word.isascii() and word.isdigit():
        return (int(word) + seed) & MASK_32
    return seeded_murmur3(word.encode("utf-8", "surrogatepass"), seed)


def seeded_murmur3(data: bytes, seed: int) -> int:
    """Murmur3 with 32 bits from a seed.

    >>> seeded_murmur3(b"hello", 0), seeded_murmur3(b"hello", 1)
    (613153351, 3142237357)
    """
    from fiol.exports.row_features import murmur3_number

    return murmur3_number(data, seed)
