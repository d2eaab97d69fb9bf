"""Texts of several sentences and documents, translated by the service: `format` of /api/translate and of /translate.

The service splits them into sentences, which are translated as others are, and puts the outputs together; the model is
in another process. So limits, queues and batches are those of sentences.

A Word document, which is no text, is a data URL, and so is its translation.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from fastapi import Request

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.jobs import client_of, settings_of, translate, while_connected
from weft.apps.serve.limits import check_documents, check_number, check_texts
from weft.apps.serve.models import ServedModel
from weft.apps.texts.files import DocumentFile, docx_file
from weft.apps.texts.formats import read_document
from weft.apps.texts.formats.docx import ArchiveLimits
from weft.apps.texts.pieces import Document
from weft.apps.texts.rendering import SentenceOutput
from weft.apps.texts.sentences import Splitter
from weft.apps.texts.translation import LOST, DocumentTranslation, Questions, Sentence, translation
from weft.errors import DataError

Result = TypeVar("Result")
DOCX_URL = "data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,"
UNPACKED, LAYOUT = 100, 5
"""Bytes of a Word document for each of its characters that are accepted: of all that it has, and of its text with its
layout."""


class _Progress(NamedTuple):
    """The translation of a document: what is asked for next, or the result."""

    sentences: list[Sentence]
    result: DocumentTranslation | None = None


class Turns:
    """One thread for the documents of all clients, who take turns: more would take the event loop's time."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.is_taken = False

    async def compute(self, request: Request, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function, computed in a thread when it is this client's turn."""
        if self.is_taken:
            turn = asyncio.get_running_loop().create_future()
            self.waiting.setdefault(client_of(request), deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._next()
                raise
        self.is_taken = True
        work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        work.add_done_callback(self._ended)
        return await asyncio.shield(work)  # a thread cannot be cancelled: until it ends, it has the turn

    def _ended(self, work: asyncio.Future[Any]) -> None:
        if not work.cancelled():
            work.exception()  # that its caller may have left is no reason for a warning
        self._next()

    def _next(self) -> None:
        """Give the turn to the first of the next client, if anybody waits."""
        self.is_taken = False
        while self.waiting:
            client, turns = self.waiting.popitem(last=False)
            while turns and turns[0].done():  # its client has left
                turns.popleft()
            if turns:
                self.is_taken = True
                turns.popleft().set_result(None)
                if turns:
                    self.waiting[client] = turns  # behind the other clients
                return


async def documents_of(request: Request, texts: Sequence[str], format: str, name: str) -> list[DocumentFile]:
    """The documents that texts are; an error of the service if there are too many, or one is not well formed."""
    settings, turns = settings_of(request), request.app.state.turns
    if format == "docx":
        check_number(texts, settings, name)
    else:
        check_documents(texts, settings, name)
    documents: list[DocumentFile] = []
    units = characters = 0
    for text in texts:
        try:
            read = turns.compute(request, _read, text, format, settings.max_document, name)
            documents.append(await while_connected(request, read))
        except DataError as error:
            raise ServiceError(422, str(error)) from None
        units += len(documents[-1].document.units)
        characters += sum(len(unit.raw) for unit in documents[-1].document.units)
        if units > settings.max_lines:
            limit = f"at most {settings.max_lines:,} are accepted at once"
            raise ServiceError(413, f"{name}: more than {settings.max_lines:,} paragraphs or lines; {limit}; split it")
        if characters > settings.max_document:
            limit = f"at most {settings.max_document:,} characters are accepted at once"
            raise ServiceError(413, f"{name}: {characters:,} characters together; {limit}; split it")
    return documents


def _read(text: str, format: str, most: int, name: str) -> DocumentFile:
    """The document that a text is; ``most``: characters that are accepted."""
    if format != "docx":
        return DocumentFile(read_document(text, format, name), name)
    _, separator, content = text.partition(";base64,")
    if not separator or not text.startswith("data:"):
        raise DataError(f"{name}: expected {DOCX_URL[:5]}…;base64, and the bytes of a .docx file in base64")
    try:
        archive = b64decode(content, validate=True)
    except ValueError:
        raise DataError(f"{name}: damaged base64; encode the bytes of the file again") from None
    return docx_file(archive, name, ArchiveLimits(size=UNPACKED * most, text=LAYOUT * most))


async def written(request: Request, file: DocumentFile, document: DocumentTranslation) -> str:
    """The text of a translated document; of a Word document its data URL."""
    if file.archive is None:
        return document.text
    content = await request.app.state.turns.compute(request, file.content_with, document.text)
    return DOCX_URL + b64encode(content).decode("ascii")


async def translate_documents(
    request: Request, model: ServedModel, payload: dict[str, Any], documents: Sequence[Document], name: str
) -> list[list[DocumentTranslation]]:
    """The translations of documents, for each its outputs by rank: as many as ``payload["n_best"]``.

    Sentences of all documents are translated together. What takes long for a long document is done in a thread.
    """
    ranks, compute = range(payload["n_best"]), request.app.state.turns.compute
    questions = [translation(document, Splitter()) for document in documents for _ in ranks]
    progress = [await compute(request, _advanced, question, None) for question in questions]
    records: dict[Sentence, dict[str, Any]] = {}
    while any(step.result is None for step in progress):
        sentences = dict.fromkeys(sentence for step in progress for sentence in step.sentences)
        new = [sentence for sentence in sentences if sentence not in records]
        await _translate_new(request, model, payload, new, records, name)
        for index, (requested, result) in enumerate(progress):
            if result is None:
                outputs = [_output(records[sentence], index % len(ranks)) for sentence in requested]
                progress[index] = await compute(request, _advanced, questions[index], outputs)
    results = [step.result for step in progress if step.result is not None]
    return [results[start : start + len(ranks)] for start in range(0, len(results), len(ranks))]


def _advanced(questions: Questions, outputs: list[SentenceOutput] | None) -> _Progress:
    """A translation after its last question was answered."""
    try:
        return _Progress(next(questions) if outputs is None else questions.send(outputs))
    except StopIteration as end:
        return _Progress([], end.value)


async def _translate_new(
    request: Request,
    model: ServedModel,
    payload: dict[str, Any],
    sentences: Sequence[Sentence],
    records: dict[Sentence, dict[str, Any]],
    name: str,
) -> None:
    """Add the records of sentences."""
    check_texts([sentence.text for sentence in sentences], settings_of(request), name)
    for needs_links in (False, True):
        new = [sentence for sentence in sentences if sentence.needs_links == needs_links]
        texts = [sentence.text for sentence in new]
        translated = await translate(request, model, {**payload, "attention": needs_links}, texts)
        records |= {sentence: json.loads(record) for sentence, record in zip(new, translated, strict=True)}


def record_of(source: str, document: DocumentTranslation, text: str) -> dict[str, Any]:
    """A translated document as JSON: its text, as it is written, and what is known of each of its units."""
    confidences = [unit.confidence for unit in document.units if unit.confidence is not None]
    return {
        "source": source,
        "text": text,
        "sentences": document.sentences,
        "confidence": min(confidences, default=None),
        "flags": sorted(document.flags),
        "units": [
            {"source": unit.source, "text": unit.text, "confidence": unit.confidence, "flags": list(unit.flags)}
            for unit in document.units
        ],
    }


def _output(record: dict[str, Any], rank: int) -> SentenceOutput:
    """An output of a sentence, by its record."""
    ranked = [record, *record["alternatives"]]
    chosen = ranked[min(rank, len(ranked) - 1)]
    words = chosen["word_attention"]
    flags = tuple(flag for flag in chosen["flags"] if flag != LOST)
    if words is None:
        return SentenceOutput(chosen["text"], flags=flags, confidence=chosen["confidence"])
    links = [(source, target) for source, target in chosen["links"]]
    return SentenceOutput(chosen["text"], words["source"][:-1], words["target"], links, flags, chosen["confidence"])
