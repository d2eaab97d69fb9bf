"""Additions to the records of models that read pictures, frames or sound.

The picture as the model has read it, with the cells that its states stand for: the page draws attention on it. An
output in LaTeX is also sent as MathML.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from weft.apps.serve.records import matrix
from weft.data.arrays.png import data_address
from weft.data.arrays.tokenizer import DATA_URL
from weft.pictures.attention_panels import panels_of
from weft.pictures.html.latex import has_latex, mathml
from weft.pictures.pixels import as_rgb, fit
from weft.translation.inspection import with_positions

if TYPE_CHECKING:
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

SHOWN_SIDE = 1_000
"""Pixels of a side of the picture that is sent; a larger one is sent smaller."""
SHOWN_SOURCE = 60
"""Characters of a data URL that a record repeats."""


def add_picture(record: dict[str, Any], translator: Translator, result: Translation, *, attention: bool) -> None:
    """Add to a record what a model that reads arrays has to show; the source is not repeated as a whole."""
    if not translator.tokenizers.reads_arrays:
        return
    for part in (record, *record["alternatives"]):
        if part["source"].startswith(DATA_URL):
            part["source"] = f"{part['source'][:SHOWN_SOURCE]}…"
    if writes_latex(cast(Any, translator.tokenizers.target)):
        for part in (record, *record["alternatives"]):
            part["mathml"] = None if (rendered := mathml(part["text"])) is None else str(rendered)
    if not attention:
        return
    result = with_positions(translator, result)
    if result.attention is not None and record["attention"] is None:
        record |= {"attention": matrix(result.attention), "source_tokens": result.source_tokens}
    panels = panels_of(translator, result) if result.tokens else None
    record["picture"] = None
    if panels is not None:
        height, width = panels.picture.shape[:2]
        rows, columns = panels.weights_THW.shape[1:]
        record["picture"] = {
            "address": data_address(fit(as_rgb(panels.picture), SHOWN_SIDE, SHOWN_SIDE)),
            "height": height,
            "width": width,
            "rows": rows,
            "columns": columns,
            "cell": [height if rows == 1 else panels.strides[0], panels.strides[1]],
        }


@lru_cache(maxsize=8)
def writes_latex(tokenizer: Any) -> bool:
    """Whether outputs are formulas in LaTeX."""
    return has_latex(tokenizer.tokens(range(tokenizer.size)))
