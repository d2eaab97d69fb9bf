"""Copy tables and sentence ids of a model that copies (``model.copy``), from the tokenizers of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from weft.errors import RecipeError
from weft.recipe import ModelSettings
from weft.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.text.copying import SentenceIds


def set_copy_table(model: Model, settings: ModelSettings, tokenizers: Tokenizers) -> None:
    """Tell a model that copies which target ids the source ids of its run stand for."""
    if not settings.copies:
        return
    from weft.models.architecture import architecture_of

    if not architecture_of(model).copies:
        return
    from weft.models.copying import CopySource, CopyTable
    from weft.text.copying import SentenceIds, target_ids
    from weft.text.specials import END

    table = CopyTable(target_ids(tokenizers), own_ids=SentenceIds.of(tokenizers) is not None)
    if not table.own_ids and not any(id > END for id in table.target_ids):
        raise RecipeError(
            "model.copy: no source token is in the target vocabulary, so none can be copied; "
            "set tokenizer.joint = true, or the same kind of tokenizer for both sides"
        )
    cast(CopySource, model).set_table(table)


def sentence_ids(settings: ModelSettings, tokenizers: Tokenizers) -> SentenceIds | None:
    """Ids for tokens that are not in the vocabularies; None if the model, or a tokenizer, has none."""
    if not settings.copies:
        return None
    from weft.text.copying import SentenceIds

    return SentenceIds.of(tokenizers)
