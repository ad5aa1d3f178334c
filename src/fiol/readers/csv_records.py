"""The compiled loop that finds where records of a CSV file begin, and how many fields each has."""

from typing import Any

import numpy as np

from fiol.compiler.compiled import jit

LINE_FEED, CARRIAGE_RETURN = 10, 13


@jit
def find_records(data, size, delimiter, quote, starts, fields, lines):
    """Records in `data[:size]`: where each starts, its number of fields (0 for an empty line), and its line, from 0.

    A quote counts where a field begins; within quotes, two of them are one, and line ends are text. Lines end with LF,
    CR LF, or CR. Returns how many records have an end, and where the first one without an end starts, on which line;
    `starts` has one place more than there are line ends.
    """
    found, start, line, first_line, commas = 0, 0, 0, 0, 0
    fresh, quoted = True, False  # at the beginning of a field; within quotes
    k = 0
    while k < size:
        c = data[k]
        if quoted:
            if c == quote:
                if k + 1 < size and data[k + 1] == quote:
                    k += 1
                else:
                    quoted = False
            elif c == LINE_FEED or (c == CARRIAGE_RETURN and not (k + 1 < size and data[k + 1] == LINE_FEED)):
                line += 1
        elif c == delimiter:
            commas += 1
            fresh = True
        elif c == LINE_FEED or c == CARRIAGE_RETURN:  # noqa: SIM109 - a tuple would be slower
            empty = k == start
            if c == CARRIAGE_RETURN and k + 1 < size and data[k + 1] == LINE_FEED:
                k += 1
            starts[found], fields[found], lines[found] = start, 0 if empty else commas + 1, first_line
            found += 1
            line += 1
            start, first_line, commas, fresh = k + 1, line, 0, True
        elif fresh:
            quoted = c == quote
            fresh = False
        k += 1
    starts[found] = start
    return found, start, first_line


def records_in(data: bytes, size: int, delimiter: int, quote: int) -> tuple[Any, Any, Any, tuple[int, int]]:
    """Starts (one more than there are), fields and lines of the records in `data[:size]`; where the rest starts.

    >>> starts, fields, lines, rest = records_in(b'a,"b\\nc"\\n\\n1,2\\n3,', 16, ord(","), ord('"'))
    >>> starts, fields, lines, rest
    (array([ 0,  8,  9, 13]), array([2, 0, 2]), array([0, 2, 3]), (13, 4))
    """
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False  # so that the loop sees one type
    room = int(np.count_nonzero(array[:size] == LINE_FEED) + np.count_nonzero(array[:size] == CARRIAGE_RETURN))
    starts, fields, lines = np.empty(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    found, start, line = find_records(array, size, delimiter, quote, starts, fields, lines)
    return starts[: found + 1], fields[:found], lines[:found], (int(start), int(line))
