"""From a checkpoint of fairseq, OpenNMT-py or Joey NMT to a run; `CheckpointModel` is one in weft's terms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import CheckpointError, RecipeError, option
from weft.interop.checkpoints.files import find_checkpoint
from weft.interop.checkpoints.vocabularies import TokenList
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion, ImportedModel, ImportOptions, external_ids
from weft.text.frames import FrameRules
from weft.text.specials import BEGIN

if TYPE_CHECKING:
    from weft.interop.checkpoints.vocabularies import TokenList
    from weft.text.tokenizer import Tokenizers


def read_model(source: str, options: ImportOptions) -> ImportedModel:
    """A model of fairseq, OpenNMT-py or Joey NMT: its checkpoint, or a folder with one."""
    from weft.interop.checkpoints.safe_loading import load_checkpoint
    from weft.interop.checkpoints.vocabularies import fit, make_tokenizers

    for name in ("source_language", "target_language"):
        if language := getattr(options, name):
            raise RecipeError(f"{option(name, language)}: this model has one language pair; leave it out")
    path = find_checkpoint(Path(source).expanduser())
    model = _read(load_checkpoint(path), path, options)
    conversion, lists = fit(model.conversion, model.vocabularies)
    tokenizers = make_tokenizers(lists, model.rules)
    texts = lists[0].texts if lists[0].texts == lists[1].texts else f"{lists[0].texts}; targets: {lists[1].texts}"
    return ImportedModel(
        source=source,
        where=str(path),
        config=model.config.where,
        family=f"{model.toolkit} model",
        kind=f"{model.toolkit}, {model.architecture}",
        conversion=conversion,
        tokenizers=tokenizers,
        search={} if options.default_search else {"banned_ids": _never_written(tokenizers, lists[1])},
        texts=texts,
    )


def _read(content: dict[str, Any], path: Path, options: ImportOptions) -> CheckpointModel:
    """The model, by the toolkit that wrote the checkpoint: each calls its parts differently."""
    from weft.interop.checkpoints import fairseq, joeynmt, opennmt

    if "model_state" in content:
        return joeynmt.read(content, path, options)
    if "opt" in content and "vocab" in content:
        return opennmt.read(content, path, options)
    if "model" in content and ("args" in content or "cfg" in content):
        return fairseq.read(content, path, options)
    names = ", ".join(sorted(content)[:6]) or "nothing"
    raise CheckpointError(f"{path}: not a checkpoint of fairseq, OpenNMT-py or Joey NMT; it holds {names}")


def _never_written(tokenizers: Tokenizers, tokens: TokenList) -> list[list[int]]:
    """search.banned_ids: tokens that a decoder is never trained to write."""
    if tokens.special.padding not in tokens.names:
        return [[BEGIN]]
    padding = tokens.names.index(tokens.special.padding)
    return [[BEGIN], [external_ids(tokenizers.target).index(padding)]]


class CheckpointModel(NamedTuple):
    """The content of a checkpoint."""

    toolkit: str
    architecture: str
    """The toolkit's name for it."""
    config: Configuration
    conversion: Conversion
    vocabularies: tuple[TokenList, TokenList]
    """Vocabularies of source and target."""
    rules: FrameRules
    """The special tokens around texts."""


def check_neutral(config: Configuration, neutral: Mapping[str, tuple[Any, ...]]) -> None:
    """Fail unless every option that is set has a value that changes nothing."""
    for name, values in neutral.items():
        value = config.values.get(name)
        if value is not None and value not in values:
            raise config.error(name, f"{value!r} is not imported; weft imports models without it")
