"""Made-up dates in many formats, and strings that are nearly dates, for hypothesis."""

import datetime as dt

from hypothesis import strategies as st

#: Formats of every part, with separators of every sort.
FORMATS = [
    "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%b %d, %Y", "%d%b%Y", "%Y%m%d", "%y%m%d", "%d/%m/%y",
    "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S", "%I%p %d %b %y", "%Y-%m-%dT%H.%M.%S",
    "%H:%M:%S/%d-%m-%Y", "%m/%d/%Y %I:%M:%S%p", "%Y年%m月%d日", "%d '%b' %Y",
]  # fmt: skip
#: Pieces that make dates of other formats, or none.
PIECES = ["", "0", "9", "13", "-", "/", ".", " ", "T", "Z", "am", "P", "Feb", "x", "\u0663", "\xa0", "30", "29", "\0"]


def formatted(moment, form, padded=True):
    """Return a moment in a format; without zeros in front of months, days and times if it is not padded."""
    text = form.replace("%Y", f"{moment.year:04d}")
    for letter in "mdHIMS":
        number = moment.strftime(f"%{letter}")
        text = text.replace(f"%{letter}", number if padded or "%Y%m%d" in form or "%y%m" in form else str(int(number)))
    month, half = moment.strftime("%b"), moment.strftime("%p")
    return text.replace("%y", f"{moment.year % 100:02d}").replace("%b", month).replace("%p", half)


@st.composite
def date_cells(draw, form):
    """Return a cell of a column with a date format, ISO dates for "": a date, or a string that is nearly one."""
    moment = draw(st.datetimes(dt.datetime(1, 1, 1)))
    iso = draw(st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"]))
    text = formatted(moment, form or iso, draw(st.booleans()) or not form)
    text = draw(st.sampled_from([str, str, str.upper, str.lower, " {}".format, "{} ".format]))(text)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        k = draw(st.integers(0, len(text)))
        text = text[:k] + draw(st.sampled_from(PIECES)) + text[k + draw(st.integers(0, 2)) :]
    return text
