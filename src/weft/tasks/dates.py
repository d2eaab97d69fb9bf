"""Dates as people write them → ISO 8601: ``Thursday, 7 March 2024`` → ``2024-03-07``.

Every format is unambiguous:

- three numbers with dots are day first (``7.3.2024``), with slashes month first (``3/7/2024``), with hyphens, or
  beginning with a year, year first (``2024-03-07``, ``2024/03/07``);
- a year of two digits lies in 1950–2049: 50 to 99 are 19xx, 00 to 49 are 20xx; dates of other years
  are not written this way;
- weekdays are the right ones for their date.

Dates are drawn uniformly over the years 1900–2099, then one of the formats, each equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from random import Random

from weft.data.pairs import Pair
from weft.errors import RecipeError
from weft.tasks.options import check_integer

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SPELLED = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth"),
    *("twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
PIVOT = 50  # two-digit years from here on are of the twentieth century


def ordinal(day: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``, ``22nd``."""
    ending = "th" if day // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


def _short(day: date) -> str:
    return _month(day)[:3]


def _weekday(day: date) -> str:
    return WEEKDAYS[day.weekday()]


def _two_digits(day: date) -> str:
    return f"{day.year % 100:02d}"


# One line per format. Those of SHORT write the year with two digits.
LONG: tuple[Callable[[date], str], ...] = (
    lambda d: d.isoformat(),
    lambda d: f"{d.year}/{d.month:02d}/{d.day:02d}",
    lambda d: f"{d.year}.{d.month:02d}.{d.day:02d}",
    lambda d: f"{d.year}{d.month:02d}{d.day:02d}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d.day:02d}.{d.month:02d}.{d.year}",
    lambda d: f"{d.month}/{d.day}/{d.year}",
    lambda d: f"{d.month:02d}/{d.day:02d}/{d.year}",
    lambda d: f"{d.day} {_month(d)} {d.year}",
    lambda d: f"{ordinal(d.day)} {_month(d)} {d.year}",
    lambda d: f"{ordinal(d.day)} of {_month(d)} {d.year}",
    lambda d: f"the {ordinal(d.day)} of {_month(d)}, {d.year}",
    lambda d: f"{_month(d)} {d.day}, {d.year}",
    lambda d: f"{_month(d)} {ordinal(d.day)}, {d.year}",
    lambda d: f"{_month(d)} the {ordinal(d.day)}, {d.year}",
    lambda d: f"{d.day} {_short(d)} {d.year}",
    lambda d: f"{d.day:02d} {_short(d)} {d.year}",
    lambda d: f"{_short(d)} {d.day}, {d.year}",
    lambda d: f"{_short(d).upper()} {d.day} {d.year}",
    lambda d: f"{d.day:02d}-{_short(d)}-{d.year}",
    lambda d: f"{d.day:02d}{_short(d).upper()}{d.year}",
    lambda d: f"{d.year} {_short(d)} {d.day}",
    lambda d: f"{d.year}, {_month(d)} {d.day}",
    lambda d: f"{_weekday(d)}, {d.day} {_month(d)} {d.year}",
    lambda d: f"{_weekday(d)}, {_month(d)} {d.day}, {d.year}",
    lambda d: f"{_weekday(d)} {ordinal(d.day)} {_month(d)} {d.year}",
    lambda d: f"{_weekday(d)[:3]}, {d.day:02d} {_short(d)} {d.year}",
    lambda d: f"{_weekday(d)[:3]} {_short(d)} {d.day} {d.year}",
    lambda d: f"the {SPELLED[d.day - 1]} of {_month(d)}, {d.year}",
    lambda d: f"{_month(d)} the {SPELLED[d.day - 1]}, {d.year}",
    lambda d: f"{_weekday(d)} the {SPELLED[d.day - 1]} of {_month(d)} {d.year}",
)
SHORT: tuple[Callable[[date], str], ...] = (
    lambda d: f"{d.month}/{d.day}/{_two_digits(d)}",
    lambda d: f"{d.day}.{d.month}.{_two_digits(d)}",
    lambda d: f"{d.day} {_short(d)} '{_two_digits(d)}",
    lambda d: f"{_month(d)} {d.day}, '{_two_digits(d)}",
    lambda d: f"{d.day:02d}-{_short(d)}-{_two_digits(d)}",
)


def sample(random: Random, *, first_year: int = 1900, last_year: int = 2099) -> Pair:
    """A date from the first day of one year to the last day of another."""
    check_integer("first_year", first_year, minimum=1900, maximum=2099)
    check_integer("last_year", last_year, minimum=1900, maximum=2099)
    if last_year < first_year:
        raise RecipeError(f"last_year: {last_year} is before first_year, {first_year}")
    start = date(first_year, 1, 1)
    day = start + timedelta(days=random.randrange((date(last_year + 1, 1, 1) - start).days))
    century = 1900 + PIVOT
    formats = LONG + SHORT if century <= day.year < century + 100 else LONG
    return Pair(random.choice(formats)(day), day.isoformat())
