import numpy as np

from weft.apps.reporting.worst_pictures import WORST, marked, worst_pictures

PICTURE = np.zeros((2, 3), np.uint8)


def test_the_worst_come_first_and_only_they_are_read():
    names, outputs, references = ["a", "b", "c", "d"], ["12", "", "34567", "<9>"], ["12", "7", "34568", "1"]
    read = []

    def picture(name):
        read.append(name)
        return PICTURE

    section = worst_pictures(names, outputs, references, picture)
    assert read == ["d", "b", "c"]
    assert section.record()[0] == {"source": "d", "reference": "1", "output": "<9>", "errors": 3}
    markup = section.html()
    assert markup.count("<img") == 3 and "&lt;" in markup and "<9>" not in markup and "1 of 5 characters" in markup
    assert len(worst_pictures(["a"] * 50, ["1"] * 50, ["2"] * 50, picture).cases) == WORST


def test_everything_is_right():
    assert "Every output equals its reference." in worst_pictures(["a"], ["1"], ["1"], lambda name: PICTURE).html()


def test_marks():
    assert marked("1x3", "123") == '<bdi dir="auto">1<span class="wrong">x</span>3</bdi>'
    assert marked("13", "123") == '<bdi dir="auto">1<span class="wrong">·</span>3</bdi>'
    assert "(empty)" in marked(" ", "1")


def test_references_can_be_shown_otherwise():
    from dataclasses import replace

    from weft.pictures.html.elements import element

    section = worst_pictures(["a"], ["1"], ["2"], lambda name: PICTURE)
    assert "<math>2</math>" in replace(section, shown=lambda text: element("math", text)).html()
