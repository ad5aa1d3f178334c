"""Codes of the compiled loops: kinds of cells, results, formats; it loads without the compiler."""

#: What a loop found: the end; numbers that Python has to read; no room for more names; or something that is wrong.
DONE, HARD, FULL, NO_LABEL, NO_INDEX, NO_VALUE, ZERO_INDEX, LARGE_INDEX, OUT_OF_RANGE = range(9)
NO_WEIGHT, THIRD_NUMBER, AFTER_TAG, NO_BAR, NO_NAMESPACE, RETURN_INSIDE = range(9, 15)
#: Something in cells that is wrong, or that this loop leaves to a slower way; an object with other keys than before;
#: a target that is text.
STRANGE, OTHER_KEYS, TEXT_TARGET = 15, 16, 17
#: What becomes of a column of cells.
SKIPPED, NUMBER_CELL, TRUTH_CELL, CATEGORY_CELL, WORDS_CELL, DATE_CELL, TIME_CELL, UNDECIDED_CELL = range(8)
TARGET_NUMBER, TARGET_WHOLE, TARGET_TRUTH, TARGET_TEXT, TARGET_ANY, WEIGHT_CELL, TAG_CELL = range(8, 15)
#: What a cell is: a text (and any field of CSV), a number, true, false, null, or not there.
TEXT, BARE, YES, NO, NULL, ABSENT = range(6)
#: Pieces of date formats: a byte is itself; MAY_END is where a date without what follows ends, FULL_WIDTH is for all
#: numbers to have all their digits.
END_OF_FORMAT, FIRST_PIECE = 0, 256
YEAR, SHORT_YEAR, MONTH, DAY, HOUR, HOUR_OF_12, MINUTE, SECOND = range(FIRST_PIECE, FIRST_PIECE + 8)
MONTH_WORD, HALF_DAY, MAY_END, BLANK_OR_T, FULL_WIDTH = range(FIRST_PIECE + 8, FIRST_PIECE + 13)
#: Pieces by their letters in formats.
FORMAT_LETTERS = dict(
    zip(
        "YymdHIMSbp",
        (YEAR, SHORT_YEAR, MONTH, DAY, HOUR, HOUR_OF_12, MINUTE, SECOND, MONTH_WORD, HALF_DAY),
        strict=True,
    )
)

#: Fields of CSV that say that a value is missing, those of pandas but for the empty one, true and false, as words.
MISSING_WORDS = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
