"""Slow and obvious parsers of lines, as references: str and float of Python, a line at a time."""

import re

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
INDEX = re.compile(r"[0-9]+")
TEXT_VALUE = re.compile(r"(?!nan|inf)[^-+.0-9|][^|]*", re.IGNORECASE)
QUERY = re.compile(r"qid:-?[0-9]+")


class BadRowError(Exception):
    """A line that is no row."""


def number(text):
    """A decimal number."""
    if not NUMBER.fullmatch(text):
        raise BadRowError(text)
    value = float(text)
    if value in (float("inf"), -float("inf")):
        raise BadRowError(text)
    return value


def feature_value(value):
    """A value that a learner takes."""
    if value != 0.0 and not 1e-100 <= abs(value) <= 1e100:
        raise BadRowError(value)
    return value


def plain_svmlight(line, zero_based=False):
    """Target and entries of a line (bytes, without its end), None if it has no row; BadRowError if it is wrong."""
    words = [w for w in re.split(r"[ \t\r]+", line.decode("latin-1").partition("#")[0]) if w]
    if not words:
        return None
    target, entries = number(words[0]), []
    for word in words[1:]:
        index, colon, value = word.partition(":")
        if QUERY.fullmatch(word):
            continue
        if not colon or not INDEX.fullmatch(index):
            raise BadRowError(word)
        i = int(index) - (not zero_based)
        if not 0 <= i < 2**31 - 1:
            raise BadRowError(word)
        entries.append((i, feature_value(number(value))))
    return target, entries


def plain_rows(text, parse):
    """The rows that a parser of lines finds in a text, and the numbers, from 1, of the lines it refuses."""
    rows, refused = [], []
    for k, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            row = parse(line)
        except BadRowError:
            refused.append(k)
            continue
        if row is not None:
            rows.append(row)
    return rows, refused


def plain_name(space, feature):
    """The name of a feature in a namespace."""
    before, _, behind = feature.partition("^")
    if "^" in space or (not space and before and behind):
        return f"|{space} {feature}"
    return f"{space}^{feature}" if space else feature


def plain_vw(line):
    """Target, weight, tag and entries by name of a line; None if it is empty, BadRowError if it is wrong."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise BadRowError(line) from error
    text = text.removesuffix("\r")
    if not text.strip(" \t"):
        return None
    if "\r" in text or "|" not in text:
        raise BadRowError(text)
    head, *spaces = text.split("|")
    words, tag = [word for word in re.split(r"[ \t]+", head) if word], None
    if words and (words[-1].startswith("'") or not head.endswith((" ", "\t"))):
        tag = words.pop().removeprefix("'")
    numbers = [number(word) for word in words]
    if len(numbers) > 2 or (len(numbers) == 2 and not 0.0 <= numbers[1] <= 1e30):
        raise BadRowError(head)
    entries = []
    for k, space in enumerate(spaces, 1):
        name, *features = re.split(r"[ \t]", space)
        name, colon, factor = name.partition(":")
        if colon and not name:
            raise BadRowError(space)
        factor, anonymous = number(factor) if colon else 1.0, 0
        for feature in filter(None, features):
            called, colon, value = feature.partition(":")
            if TEXT_VALUE.fullmatch(value):
                if k < len(spaces) and space.endswith(feature):
                    raise BadRowError(feature)  # a bar in it
                called, value = f"{called}:{value}" if called else value, 1.0
            else:
                if not called:
                    called = str(anonymous)
                    anonymous += 1
                value = feature_value((number(value) if colon else 1.0) * factor)
            if value != 0.0:
                entries.append((plain_name(name, called), value))
    return (numbers[0] if numbers else None), (numbers[1] if len(numbers) > 1 else 1.0), tag, entries
