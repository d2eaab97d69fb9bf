"""Lines of several sentences: each is translated alone, and the layout stays as it was.

Line breaks end a sentence: of a text that is wrapped at some width, unwrap the paragraphs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.apps.texts.sentences import Part, Splitter
from weft.translation.results import Translation, empty_translation

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def translate_lines(
    run: Translator, lines: Sequence[str], *, splitter: Splitter | None = None, **search: Any
) -> list[Translation]:
    """A translation for every line, whose sentences are translated one by one.

    Its text has the layout of the line; its scores are sums over sentences, its confidence is the lowest of theirs, and
    its flags are those of all of them. It has neither attention nor alternatives.
    """
    splitter = Splitter.of_run(run) if splitter is None else splitter
    layouts = [splitter(line) for line in lines]
    sentences = [part.text for layout in layouts for part in layout if part.is_sentence]
    outputs = iter(run.translate(sentences, return_attention=False, **search) if sentences else [])
    return [
        join_line(line, layout, [next(outputs) for part in layout if part.is_sentence])
        for line, layout in zip(lines, layouts, strict=True)
    ]


def join_line(line: str, layout: Sequence[Part], outputs: Sequence[Translation]) -> Translation:
    """The translation of a line from those of its sentences."""
    if not outputs:
        return replace(empty_translation(line), text=line)
    remaining = iter(outputs)
    text = "".join(next(remaining).text if part.is_sentence else part.text for part in layout)
    confidences = [output.confidence for output in outputs if output.confidence is not None]
    joined = Translation(
        source=line,
        text=text,
        score=sum(output.score for output in outputs),
        log_probability=sum(output.log_probability for output in outputs),
        tokens=[token for output in outputs for token in output.tokens],
        ids=[token for output in outputs for token in output.ids],
        token_scores=[score for output in outputs for score in output.token_scores],
        source_tokens=[token for output in outputs for token in output.source_tokens],
        attention=None,
        word_attention=None,
        links=[],
        ended=next((output.ended for output in outputs if output.ended != "end"), "end"),
        gap=None,
        confidence=min(confidences, default=None),
    )
    names = {name for output in outputs for name in output.flags}
    vars(joined)["flags"] = tuple(sorted(names))  # those of sentences, not of the line as a whole
    return joined
