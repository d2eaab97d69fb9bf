"""generation_config.json as search settings: what `generate` of transformers does by default, in weft's words.

    num_beams                1: search.kind = "greedy"; more: "beam" and search.size. do_sample: "sample"
    early_stopping           true: search.stop = "finished"; false: "outranked_by_all"; "never": "provable"
    length_penalty           search.length_penalty; the end token counts in both
    max_length, min_length   less the tokens that a decoder starts with, which transformers counts
    no_repeat_ngram_size, repetition_penalty, temperature, top_k, top_p, min_p, typical_p, bad_words_ids

Older folders have these entries in config.json. ``forced_eos_token_id`` ends an output that reaches the maximum length
in transformers; weft returns such an output as it is, marked as cut off. All other entries that change outputs are
refused if they are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.interop.huggingface.configuration import Configuration

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": ([],),
    "constraints": ([],),
    "diversity_penalty": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "forced_decoder_ids": ([],),
    "guidance_scale": (1,),
    "num_beam_groups": (1,),
    "penalty_alpha": (0,),
    "renormalize_logits": (False,),
    "sequence_bias": ({}, []),
    "suppress_tokens": ([],),
    "top_h": (),
    "watermarking_config": (),
}
"""Entries that weft has no setting for, and the values that change nothing, beside null."""
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0}
"""Entries of sampling, with the values that transformers uses where they are not set."""
HINT = "import it with weft's own search settings: --default-search"


def search_settings(config: Configuration, ids: Mapping[int, int], started: int) -> dict[str, Any]:
    """[search] of a run. ``config``: generation_config.json over config.json.

    ``ids``: weft's id of every id of the target's vocabulary; ``started``: tokens that the decoder starts with.
    """
    for name, values in NEUTRAL.items():
        if config.values.get(name) is not None and config.values[name] not in values:
            raise config.error(name, f"{config.values[name]!r} has no counterpart in weft; {HINT}")
    settings: dict[str, Any] = {"no_loops": False, **_strategy(config)}
    settings["length_penalty"] = _number(config, "length_penalty", 1.0)
    longest = config.values.get("max_new_tokens")
    if longest is not None:
        settings["max_length"] = config.whole("max_new_tokens")
    elif config.values.get("max_length") is not None:
        settings["max_length"] = max(config.whole("max_length") - started, 1)
    shortest = config.whole("min_new_tokens", 0, least=0)
    settings["min_length"] = max(shortest, config.whole("min_length", 0, least=0) - started, 0)
    if settings.get("max_length"):
        settings["min_length"] = min(settings["min_length"], settings["max_length"])
    settings["no_repeat_ngram"] = config.whole("no_repeat_ngram_size", 0, least=0)
    settings["repetition_penalty"] = _number(config, "repetition_penalty", 1.0, least=1.0)
    settings["banned_ids"] = _banned(config, ids)
    return settings


def _strategy(config: Configuration) -> dict[str, Any]:
    beams = config.whole("num_beams", 1)
    if config.flag("do_sample", False):
        if beams > 1:
            raise config.error("do_sample", f"sampling in a beam has no counterpart in weft; {HINT}")
        values = {name: _number(config, name, neutral) for name, neutral in SAMPLING.items()}
        typical = _number(config, "typical_p", 1.0)
        return {"kind": "sample", **values, "typical": typical, "top_k": config.whole("top_k", 50, least=0)}
    if beams == 1:
        return {"kind": "greedy"}
    early = config.values.get("early_stopping") or False
    stops = {True: "finished", False: "outranked_by_all", "never": "provable"}
    if not isinstance(early, bool | str) or early not in stops:
        raise config.error("early_stopping", f"{early!r} was found, expected true, false or 'never'")
    return {"kind": "beam", "size": beams, "stop": stops[early]}


def _number(config: Configuration, name: str, default: float, *, least: float = 0.0) -> float:
    value = config.values.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        raise config.error(name, f"{value!r} has no counterpart in weft, whose least is {least:g}; {HINT}")
    return float(value)


def _banned(config: Configuration, ids: Mapping[int, int]) -> list[list[int]]:
    """Sequences of ids that no output contains."""
    phrases = config.values.get("bad_words_ids") or []
    if not isinstance(phrases, Sequence) or not all(
        isinstance(phrase, list) and phrase and all(isinstance(id, int) and id in ids for id in phrase)
        for phrase in phrases
    ):
        raise config.error("bad_words_ids", "expected lists of ids of the vocabulary")
    return [[ids[id] for id in phrase] for phrase in phrases]


def alignment_heads(config: Configuration) -> list[list[int]]:
    """model.decoder.alignment_heads: the heads that the original names, as [layer, head]."""
    heads = config.values.get("alignment_heads") or []
    if not isinstance(heads, list) or not all(
        isinstance(head, list) and len(head) == 2 and all(type(number) is int and number >= 0 for number in head)
        for head in heads
    ):
        raise config.error("alignment_heads", "expected pairs of a layer and a head")
    return heads
