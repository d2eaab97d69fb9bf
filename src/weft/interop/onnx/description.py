"""The files beside the graphs: configuration and tokenizers.

A run that can be exported to Hugging Face gets the config.json, the generation_config.json and the tokenizer of that
export, and graphs with its ids, so that optimum and transformers.js load the folder. They read from config.json what
the inputs of the decoder look like, not what a layer computes, so a class that they do not know has the name of one
that they do. Other runs keep weft's ids and tokenizers and get weft's own config.json.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from weft.errors import RecipeError
from weft.files import save_text
from weft.interop.huggingface.architectures import CLASSES
from weft.interop.huggingface.exporting import VOCABULARY, ExportPlan, make_plan, write_description
from weft.interop.onnx.graphs import Exportable
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer_decoder import TransformerDecoder
from weft.runs.load import LoadedRun
from weft.text.specials import BEGIN, END

LOADED_AS = {"pegasus": "bart", "umt5": "t5"}
"""Classes that transformers.js does not know, and known ones with the same names of sizes."""


class Description(NamedTuple):
    """The files of an exported run besides its weights."""

    run: LoadedRun
    model: Exportable
    """The model with the ids of the export."""
    plan: ExportPlan | None
    """Plan of the export to Hugging Face; None if that is not possible."""

    def write(self, folder: Path) -> None:
        """Write the files."""
        if self.plan is None:
            self.run.tokenizers.save(folder)
            _save(folder / "config.json", _own_config(self.run))
            return
        write_description(folder, self.run, self.plan)
        config = json.loads((folder / "config.json").read_text("utf-8"))
        _save(folder / "config.json", _adapted(config, self.run, self.plan))


def describe(run: LoadedRun, model: Exportable) -> Description:
    """The description of a run; ``model``: its model."""
    if not isinstance(model, Seq2Seq) or not isinstance(model.decoder, TransformerDecoder):
        return Description(run, model, None)
    try:
        plan = make_plan(run)
    except RecipeError:
        return Description(run, model, None)
    return Description(run, renumbered(model, plan.tensors), plan)


def renumbered(model: Seq2Seq, tensors: Mapping[str, Tensor]) -> Seq2Seq:
    """A copy whose vocabularies have the rows of an export."""
    model = copy.deepcopy(model)
    replaced: dict[int, nn.Parameter] = {}
    for name, parameter in [*model.named_parameters(remove_duplicate=False)]:
        if name in VOCABULARY:
            if name in tensors:
                replaced[id(parameter)] = nn.Parameter(tensors[name], requires_grad=False)
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, replaced[id(parameter)])
    return model


def _adapted(config: dict[str, Any], run: LoadedRun, plan: ExportPlan) -> dict[str, Any]:
    """config.json of a Hugging Face export for programs that run the graphs."""
    kind = LOADED_AS.get(plan.kind, plan.kind)
    if "decoder_attention_heads" in config:  # of the keys and values of the source, too
        config["encoder_attention_heads"] = config["decoder_attention_heads"]
    frame, orders = run.tokenizers.frame, plan.orders
    around = {
        "source_before": [orders["source"][id] for id in frame.source_before],
        "source_after": [orders["source"][id] for id in frame.source_after],
        "target_before": [orders["target"][id] for id in frame.target_before],
    }
    return {**config, "model_type": kind, "architectures": [CLASSES[kind]], **around}


def _own_config(run: LoadedRun) -> dict[str, Any]:
    """config.json: what a program needs to search with the graphs."""
    frame = run.tokenizers.frame
    transformer = isinstance(run.model, Seq2Seq) and isinstance(run.model.decoder, TransformerDecoder)
    sizes = {"vocab_size": run.tokenizers.target.size, "source_vocab_size": run.tokenizers.source.size}
    ids = {"decoder_start_token_id": frame.begin, "eos_token_id": END, "bos_token_id": BEGIN, "pad_token_id": END}
    around = {
        "source_before": list(frame.source_before),
        "source_after": list(frame.source_after),
        "target_before": list(frame.target_before),
    }
    kind = "transformer" if transformer else "recurrent"
    columns = {"source_columns": run.recipe.model.sources.count} if run.recipe.model.sources.count > 1 else {}
    return {"model_type": "weft", "decoder": kind, "is_encoder_decoder": True, **sizes, **ids, **around, **columns}


def _save(path: Path, content: dict[str, Any]) -> None:
    save_text(path, json.dumps(content, indent=2) + "\n")
