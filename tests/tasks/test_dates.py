"""The forms are read back by an independent reader that knows only the rules of the module's docstring."""

import re
from datetime import date, timedelta
from random import Random

import pytest

from weft.tasks import dates

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
ONES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
TEENS = ["tenth", "eleventh", "twelfth", *(f"{word}teenth" for word in ("thir", "four", "fif", "six", "seven"))]
TEENS += ["eighteenth", "nineteenth"]
SPELLED = {word: 1 + place for place, word in enumerate(ONES + TEENS)}
SPELLED |= {"twentieth": 20, "thirtieth": 30, "thirty-first": 31}
SPELLED |= {f"twenty-{word}": 21 + place for place, word in enumerate(ONES)}


def read(text: str) -> date:
    """The date that a text means; wrong weekdays and ordinals are errors."""
    text = text.lower()
    if re.fullmatch(r"\d{8}", text):
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    if numbers := re.fullmatch(r"(\d+)([./-])(\d+)\2(\d+)", text):
        a, mark, b, c = numbers.groups()
        if len(a) == 4:
            return date(int(a), int(b), int(c))
        assert mark in "./"
        day, month = (a, b) if mark == "." else (b, a)
        return date(full_year(c), int(month), int(day))
    year = month = day = weekday = None
    for word in re.findall(r"'?\d+(?:st|nd|rd|th)?|[a-z]+(?:-(?:{}))?".format("|".join(ONES)), text):
        if word in ("the", "of"):
            continue
        elif word[:3] in MONTHS and word not in SPELLED:
            month = MONTHS.index(word[:3]) + 1
        elif word in SPELLED:
            day = SPELLED[word]
        elif word[0] in "'0123456789":
            if (len(word) == 4 and word.isdigit()) or word[0] == "'" or (day is not None and month is not None):
                year = full_year(word.removeprefix("'"))
            else:
                day = int(re.match(r"\d+", word).group())
                ending = word[len(str(day)) :] if word[0] != "0" else ""
                right = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}.get(day, "th")
                assert ending in ("", right)
        else:
            weekday = next(place for place, name in enumerate(DAYS) if name in (word, word + name[3:]))
    found = date(year, month, day)
    assert weekday in (None, found.weekday())
    return found


def full_year(text: str) -> int:
    year = int(text)
    return year if len(text) == 4 else 1900 + year if year >= 50 else 2000 + year


EVERY = dates.LONG + dates.SHORT


@pytest.mark.parametrize("place", range(len(EVERY)))
def test_every_form_means_its_date(place):
    first, last = (
        (date(1900, 1, 1), date(2099, 12, 31)) if EVERY[place] in dates.LONG else (date(1950, 1, 1), date(2049, 12, 31))
    )
    day = first
    while day <= last:
        assert read(EVERY[place](day)) == day
        day += timedelta(days=13)  # meets every day of the month, month and weekday
    assert read(EVERY[place](last)) == last


def test_forms_differ_and_no_text_has_two_meanings():
    assert len(EVERY) >= 25
    meanings: dict[str, date] = {}
    for number in range(366 * 2):
        day = date(2003, 1, 1) + timedelta(days=number)
        for form in EVERY:
            assert meanings.setdefault(form(day), day) == day
    day = date(2024, 3, 7)
    assert len({form(day) for form in EVERY}) == len(EVERY)


KNOWN = ["2024-03-07", "7.3.2024", "3/7/2024", "March 7th, 2024", "7 Mar '24", "the seventh of March, 2024"]
KNOWN += ["Thursday, 7 March 2024", "Thu, 07 Mar 2024", "07MAR2024", "3/7/24", "20240307", "March the seventh, 2024"]


@pytest.mark.parametrize("text", KNOWN)
def test_known_answers(text):
    assert text in {form(date(2024, 3, 7)) for form in EVERY}


def test_ordinals():
    days = (1, 2, 3, 4, 11, 12, 13, 20, 21, 22, 23, 30, 31)
    assert " ".join(map(dates.ordinal, days)) == "1st 2nd 3rd 4th 11th 12th 13th 20th 21st 22nd 23rd 30th 31st"


def test_samples_mean_their_target():
    random = Random(1)
    for _ in range(3000):
        pair = dates.sample(random)
        assert read(pair.source).isoformat() == pair.target


def test_years():
    random = Random(2)
    years = {int(dates.sample(random, first_year=1990, last_year=1993).target[:4]) for _ in range(200)}
    assert years == {1990, 1991, 1992, 1993}
