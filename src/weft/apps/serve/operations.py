"""The operations of a worker on its model. Each takes the payload of a request and returns JSON."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from weft.apps.serve.array_records import add_picture
from weft.apps.serve.doubts import add_doubts
from weft.apps.serve.observation import Abandoned, StreamObserver
from weft.apps.serve.records import Label, head_record, matrix, number, numbers, translation_record
from weft.attention.edits import AttentionEdits, AttentionRow, Head
from weft.errors import SearchError, WeftError, nearest
from weft.models.architecture import architecture_of
from weft.recipe.choices import ARRAY_SOURCES
from weft.runtime.processes import to_json
from weft.text import specials
from weft.text.id_rows import Sentence
from weft.translation.engines.interface import HasSteppingEngine, TranslationRequest
from weft.translation.inputs import encode_prefixes
from weft.translation.pipeline import NO_TOKEN
from weft.translation.word_alignment import split_words

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weft.data.reading.glossary import Glossary
    from weft.data.reading.translation_memory import TranslationMemory
    from weft.search.loop import StepObserver
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

Payload = dict[str, Any]
TRACELESS = ("mbr", "exact", "exhaustive")
"""Searches without steps that could be shown."""
CACHED = 1
"""Glossaries and translation memories that are kept for the next batch: a request may have many."""


def translate(translator: Translator, payload: Payload, observer: StepObserver | None = None) -> list[bytes]:
    """A record for each of the texts."""
    if payload.get("trace") or payload.get("prefix") or payload.get("prefix_ids"):
        translator = with_steps(translator)
    translator = translator.in_languages(payload["search"])[0].with_edits(edits_of(payload))
    results = search(translator, payload, observer=observer)
    traced, attention = payload.get("trace", False), payload.get("attention", False)
    records = []
    for result in results:
        record = translation_record(result, label_of(translator, result.source) if traced else None)
        if attention and result.ids and (copied := translator.copied_tokens(result)):
            record["copied"] = {"tokens": copied[0], "copied": numbers(copied[1]), "gates": numbers(copied[2])}
        add_words(record, translator)
        if attention:
            add_doubts(record, result)
        add_picture(record, translator, result, attention=attention)
        records.append(to_json(record))
    return records


def search(translator: Translator, payload: Payload, *, observer: StepObserver | None = None) -> list[Translation]:
    """The translations of texts, or the continuations of prompts."""
    settings = translator.search_settings(payload["search"])
    texts: list[str] = payload["texts"]
    if translator.source_role == "none":
        options = {"count": payload["n_best"], "return_trace": payload.get("trace", False), "observer": observer}
        texts = [text + payload.get("prefix", "") for text in texts]
        return [_continuation(translator.complete(text, **options, **payload["search"]), text) for text in texts]
    prefix, prefix_ids = payload.get("prefix") or settings.prefix, payload.get("prefix_ids") or []
    if prefix_ids and max(prefix_ids) >= translator.tokenizers_for(texts[0]).target.size:
        raise SearchError(f"prefix_ids: {max(prefix_ids)}; no token has this id")
    prefixes = [prefix_ids] * len(texts) if prefix_ids else encode_prefixes(prefix, texts, translator.encode_target)
    request = TranslationRequest(
        settings=settings,
        texts=texts,
        prefixes=prefixes,
        n_best=payload["n_best"],
        return_attention=payload.get("attention", False),
        return_trace=payload.get("trace", False),
        observer=observer,
        length_limits=translator.length_limits,
    )
    return _search_with_known(translator, request, payload)


def _search_with_known(translator: Translator, request: TranslationRequest, payload: Payload) -> list[Translation]:
    """The outputs of a request, with the terms of a glossary and from a translation memory, if it has them."""
    if payload.get("glossary"):
        from weft.translation.glossary import require_terms

        request = require_terms(translator, request, read_glossary(payload["glossary"]))
    if payload.get("memory"):
        from weft.translation.translation_memory import search_with_memory

        return search_with_memory(translator, request, read_memory(payload["memory"]))
    return translator.search(request)


@lru_cache(maxsize=CACHED)
def read_glossary(text: str) -> Glossary:
    """The glossary of a request, which several requests may have."""
    from weft.data.reading.glossary import Glossary

    return Glossary.parse(text)


@lru_cache(maxsize=CACHED)
def read_memory(text: str) -> TranslationMemory:
    """The translation memory of a request, which several requests may have."""
    from weft.data.reading.translation_memory import TranslationMemory

    return TranslationMemory.parse(text)


def with_steps(translator: Translator) -> Translator:
    """The translator with an engine that shows its steps: PyTorch, also where CTranslate2 is required."""
    if not isinstance(translator.engine, HasSteppingEngine):
        return translator
    stepping = copy.copy(translator)
    stepping.engine = translator.engine.stepping_engine()
    return stepping


def _continuation(continuations: Sequence[Translation], prompt: str) -> Translation:
    best, *others = continuations
    return replace(best, source=prompt, alternatives=tuple(others))


def edits_of(payload: Payload) -> AttentionEdits:
    """The edits of attention that a request names."""
    edits = payload.get("edits") or {}
    rows = [
        AttentionRow(row["step"], tuple(row["weights"]), row.get("layer"), row.get("head"))
        for row in edits.get("attention", ())
    ]
    heads = [Head(head["kind"], head["layer"], head["head"]) for head in edits.get("heads_off", ())]
    return AttentionEdits(tuple(edits.get("blocked", ())), tuple(rows), tuple(heads))


def label_of(translator: Translator, source: str) -> Label:
    """The text of the tokens of outputs for a source."""
    target = translator.tokenizers_for(source).target
    return lambda token: target.tokens([token])[0] if token < target.size else NO_TOKEN


def stream(
    translator: Translator, payload: Payload, send: Callable[[str, Any], None], abandoned: Callable[[], bool]
) -> None:
    """Send what the search for one text does: start, step by step, done."""
    for name in (name for name in ("glossary", "memory") if payload.get(name)):
        raise SearchError(f"{name}: not with a search that is streamed; use /api/translate")
    settings = translator.search_settings(payload["search"])
    translator = with_steps(translator).in_languages(payload["search"])[0]
    [source] = payload["texts"]
    edited = translator.with_edits(edits_of(payload))
    send(
        "start",
        {
            "kind": settings.kind,
            "search": settings.model_dump(),
            "source_tokens": source_tokens(translator, source),
            "size": settings.size if settings.kind == "beam" else payload["n_best"],
        },
    )
    label = label_of(translator, source)
    vocabulary = translator.tokenizers.target.size
    observer = StreamObserver(send, abandoned, label, end=specials.END, vocabulary=vocabulary)
    payload = {**payload, "attention": True, "trace": settings.kind not in TRACELESS}
    [result] = search(edited, payload, observer=observer)
    record = translation_record(result)
    if result.ids and (copied := edited.copied_tokens(result)):
        record["copied"] = {"tokens": copied[0], "copied": numbers(copied[1]), "gates": numbers(copied[2])}
    add_words(record, translator)
    add_doubts(record, result)
    add_picture(record, translator, result, attention=True)
    send("done", {"translation": record, "winner": getattr(result.trace, "winner", None)})


def source_tokens(translator: Translator, source: str) -> list[str]:
    """The tokens of a source and its end token, as text: the columns of attention to it."""
    if translator.source_role == "none":
        return []
    tokenizers, sentence = translator.encoded_source(source)
    return tokenizers.source.tokens(sentence.ids)


def heads(translator: Translator, payload: Payload, is_abandoned: Callable[[], bool] = lambda: False) -> bytes:
    """The weights of every head for a text and its translation, or a given target."""
    edited = translator.with_edits(edits_of(payload))
    [source] = payload["texts"]
    target = payload.get("target")
    if target is None and payload.get("target_ids") is not None:
        target = translator.tokenizers_for(source).target.decode(payload["target_ids"])
    maps = edited.heads(source, target, **payload["search"])
    of_target = next((one.target for one in maps if one.kind in ("cross", "decoder", "copy")), [])
    parts = [to_json({"target_tokens": of_target})[:-1], b',"heads":[']
    for index, head in enumerate(maps):
        if is_abandoned():
            raise Abandoned
        # head by head: to encode all of them at once would block the other threads for seconds
        parts += [b"," if index else b"", to_json(head_record(head))]
    return b"".join([*parts, b"]}"])


def score(translator: Translator, payload: Payload) -> list[bytes]:
    """log p of the targets of pairs."""
    edited = translator.with_edits(edits_of(payload))
    pairs = [(source, target) for source, target in payload["pairs"]]
    end = specials.SPECIALS[specials.END]
    records = []
    for (source, target), result in zip(pairs, edited.score(pairs), strict=True):
        ids = translator.encode_target(target, source)
        tokens = [*translator.tokenizers_for(source).target.tokens(ids), end]
        records.append(
            to_json(
                {
                    "log_probability": number(result.log_probability),
                    "token_scores": numbers(result.token_scores),
                    "tokens": tokens,
                }
            )
        )
    return records


def tokens(translator: Translator, payload: Payload) -> bytes:
    """A text as tokens."""
    tokenizer = translator.tokenizers.source if payload["side"] == "source" else translator.tokenizers.target
    ids = tokenizer.encode(payload["text"])
    are_tokens = tokenizer.kind not in ARRAY_SOURCES  # the bytes of a picture are too many, and say nothing
    return to_json({"tokens": tokenizer.tokens(ids), "ids": ids if are_tokens else []})


def neighbors(translator: Translator, payload: Payload) -> bytes:
    """The tokens whose embeddings have the largest cosine with that of a given one."""
    import torch

    side, count = payload["side"], payload["count"]
    weight_VE = embedding_of(translator, side)
    tokenizer = translator.tokenizers.source if side == "source" else translator.tokenizers.target
    names = tokenizer.tokens(range(tokenizer.size))
    token_id = payload.get("id")
    if token_id is None:
        token_id = _find_token(payload["token"], names, tokenizer.encode(payload["token"]))
    if not 0 <= token_id < len(names):
        raise SearchError(f"id: {token_id}; the {side} vocabulary has the ids 0 to {len(names) - 1}")
    with torch.no_grad():
        rows_VE = torch.nn.functional.normalize(weight_VE.float(), dim=-1)[: len(names)]
        cosines_V = rows_VE @ rows_VE[token_id]
        cosines_V[token_id] = -math.inf
        best = cosines_V.topk(min(count, len(names) - 1))
    listed = [
        {"token": names[index], "id": index, "cosine": number(cosine)}
        for cosine, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return to_json({"token": names[token_id], "id": token_id, "side": side, "neighbors": listed})


class UnknownTokenError(WeftError):
    """A token that the vocabulary does not have."""


def _find_token(token: str, names: list[str], encoded: list[int]) -> int:
    """The id of a token by its name or, where it is a text of one token, by that text."""
    if token in names:
        return names.index(token)
    if len(encoded) == 1 and encoded[0] != specials.UNKNOWN:
        return encoded[0]
    raise UnknownTokenError(f"token: {token[:40]!r} is not in the vocabulary; {_near(token, names)}")


def _near(token: str, names: list[str]) -> str:
    suggestion = nearest(token, names)
    return suggestion if suggestion.startswith("did") else "look at the tokens of a text"


def embedding_of(translator: Translator, side: str) -> Tensor:
    """The embedding matrix of a side; a language model has one."""
    described = architecture_of(translator.model)
    is_source = side == "source" and described.kind != "language_model"
    embedding = described.source_embedding if is_source else described.target_embedding
    if embedding is None or (is_source and described.reads_arrays):
        raise UnknownTokenError(f"{translator.recipe.name}: this model has no {side} embedding to look into")
    module: Any = _module(translator, embedding.module)
    weight_VE: Tensor = module.weight_VE
    return weight_VE


def positions(translator: Translator, payload: Payload) -> bytes:
    """The position encodings of the first positions."""
    import torch

    stacks = [stack for stack in architecture_of(translator.model).stacks if stack.family == "transformer"]
    for stack in stacks:
        if stack.positions in ("sinusoidal", "learned"):
            length = min(payload["length"], stack.max_positions or payload["length"])
            module: Any = _module(translator, stack.module)
            with torch.no_grad():
                device = next(module.parameters()).device
                table_PD = module.positions(torch.arange(length, device=device), length).float().cpu()
            side = "encoder" if stack.module.startswith("encoder") else "decoder"
            return to_json({"kind": stack.positions, "side": side, "matrix": matrix(table_PD.numpy())})
    kinds = {str(stack.positions) for stack in stacks}
    reason = f"positions are {', '.join(sorted(kinds))}, which have no table" if kinds else "it has no positions"
    raise UnknownTokenError(f"{translator.recipe.name}: {reason}")


def _module(translator: Translator, name: str) -> nn.Module:
    return cast("nn.Module", translator.model).get_submodule(name)


def add_words(record: dict[str, Any], translator: Translator) -> None:
    """Add the words to the record of a translation and to those of its alternatives.

    ``source_words`` and, for each of the tokens, ``source_word_of_token``, −1 for one that is part of no word; the same
    for the target. A record without attention over words is left as it is.
    """
    if record["word_attention"] is None:
        return
    tokenizers, source = translator.encoded_source(record["source"])
    source_words, source_groups = split_words(tokenizers.source, source)
    for translation in (record, *record["alternatives"]):
        words, groups = split_words(tokenizers.target, Sentence(translation["text"], translation["ids"]))
        translation |= {"source_words": source_words, "source_word_of_token": source_groups}
        translation |= {"target_words": words, "target_word_of_token": groups}
