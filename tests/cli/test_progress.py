"""What training shows of its events."""

import io

from rich.console import Console

from weft.cli.progress import ProgressReporter
from weft.training.events import Validation


def shown(*events):
    stream = io.StringIO()
    list(ProgressReporter(Console(file=stream, width=100))(events))
    return stream.getvalue().splitlines()


def test_outputs_that_reached_the_length_limit():
    plain = "step 4: validation perplexity 2.000, bleu 31.25"
    assert shown(Validation(4, 0.7, 2.0, {"bleu": 31.25}, outputs=200)) == [plain]
    assert shown(Validation(4, 0.7, 2.0, {"bleu": 31.25}, outputs=200, ended_by_length=12)) == [
        plain,
        "step 4: 12 of 200 outputs reached the length limit",
    ]
    assert shown(Validation(4, 0.7, 2.0, {"bleu": 31.25}, outputs=1, ended_by_length=1))[1] == (
        "step 4: 1 of 1 output reached the length limit"
    )
