"""Functions that journeys call in processes of their own, see `Processes.call`: log p in every program."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

Pairs = list[tuple[str, str]]


def test_pairs(run: str) -> Pairs:
    """The pairs that ``weft evaluate RUN`` evaluates, as ``weft translate`` and ``weft score`` read them."""
    import weft
    from weft.evaluation.pairs import find_pairs

    return [(pair.source, pair.target) for pair in find_pairs(weft.load(run).recipe, None).pairs]


def own_scores(run: str, pairs: Pairs, adapter: str | None = None) -> list[float]:
    """By `weft.Translator.score`."""
    import weft

    return [scored.log_probability for scored in weft.load(run, adapter=adapter).score(map(tuple, pairs))]


def used(run: str) -> tuple[Pairs, list[float], list[float]]:
    """A few test pairs, their log p, and the scores of the outputs for their sources."""
    import weft

    pairs = test_pairs(run)[:4]
    outputs = weft.load(run).translate([source for source, _ in pairs])
    return pairs, own_scores(run, pairs), [output.score for output in outputs]


def searched(run: str, sources: list[str], search: dict[str, Any]) -> list[tuple[float, float | None]]:
    """log p of the output of a search, and by forced decoding; None where the text is split into other tokens."""
    import weft

    translator = weft.load(run)
    outputs = translator.translate(sources, **search)
    forced = translator.force_decode([(output.source, output.text) for output in outputs])
    return [
        (
            sum(output.token_scores[: len(output.ids)]),
            sum(target.token_scores[: len(output.ids)]) if target.ids == output.ids else None,
        )
        for output, target in zip(outputs, forced, strict=True)
    ]


def huggingface_scores(folder: str, pairs: Pairs) -> list[float]:
    """By transformers, from text."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    source_tokenizer = target_tokenizer = AutoTokenizer.from_pretrained(folder)
    if (Path(folder) / "target_tokenizer").is_dir():
        target_tokenizer = AutoTokenizer.from_pretrained(Path(folder) / "target_tokenizer")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    scores = []
    for source, target in pairs:
        inputs = source_tokenizer(source, return_tensors="pt")
        labels = target_tokenizer(target, return_tensors="pt").input_ids
        with torch.no_grad():
            logits = model(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, labels=labels).logits
        scores.append(logits.log_softmax(-1).gather(-1, labels[..., None]).sum().item())
    return scores


def ctranslate2_scores(folder: str, pairs: Pairs) -> list[float]:
    """By CTranslate2, with the tokens that the documentation describes."""
    import ctranslate2

    from weft.text.tokenizer import load_tokenizers

    tokenizers = load_tokenizers(tuple(sorted(Path(folder).glob("tokenizer*.json"))))
    model = ctranslate2.Translator(folder)
    sources = [[*map(str, tokenizers.source.encode(source)), "</s>"] for source, _ in pairs]
    targets = [[*map(str, tokenizers.target.encode(target))] for _, target in pairs]
    return [sum(scored.log_probs) for scored in model.score_batch(sources, targets)]


def onnx_scores(run: str, folder: str, pairs: Pairs, document: str) -> list[float]:
    """By ONNX Runtime, with the class of the documentation."""
    blocks = re.findall(r"```python\n(.*?)```", Path(document).read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "def beam_search" in block), names)
    model = names["Model"](folder)
    scores = []
    for source, target in _ids(run, folder, pairs):
        log_p, past = model.start(source)
        total = 0.0
        for token in [*target, model.config["eos_token_id"]]:
            total += float(log_p[0, token])
            log_p, past = model.step([token], past)
        scores.append(total)
    return scores


def _ids(run: str, folder: str, pairs: Pairs) -> list[tuple[list[int], list[int]]]:
    """Ids of sources and targets without their end tokens: with the tokenizer of a Hugging Face export, or weft's."""
    if (Path(folder) / "tokenizer_config.json").exists():
        import tokenizers

        paths = [Path(folder) / "tokenizer.json", Path(folder) / "target_tokenizer" / "tokenizer.json"]
        both = [tokenizers.Tokenizer.from_file(str(path)) for path in paths if path.exists()]
        return [
            (
                both[0].encode(source, add_special_tokens=False).ids,
                both[-1].encode(target, add_special_tokens=False).ids,
            )
            for source, target in pairs
        ]
    import weft

    translator = weft.load(run)
    sources = translator.encode_sources([source for source, _ in pairs])
    both = zip(sources, pairs, strict=True)
    return [(list(ids), translator.encode_target(target, source)) for ids, (source, target) in both]


def largest_difference(scores: list[float], expected: list[float]) -> float:
    assert len(scores) == len(expected) and all(map(math.isfinite, scores))
    return max(abs(score - other) for score, other in zip(scores, expected, strict=True))
