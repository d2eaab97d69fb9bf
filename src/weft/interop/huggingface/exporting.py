"""From a run to a folder that `AutoModelForSeq2SeqLM.from_pretrained` loads.

Tokens of a run that was trained here keep their ids; a padding token follows the last one, with an embedding of zeros
and a bias that rules it out. Where source and target have separate embeddings and the class has one table, it holds
those of the target and then those of the source, whose ids follow and are also ruled out as outputs. An imported run
gets back the ids of the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import weft
from weft.errors import RecipeError, SearchError, nearest
from weft.files import replacing, save_text
from weft.interop.export_folder import check_replaceable, write_export
from weft.interop.huggingface import bart_weights, t5_weights
from weft.interop.huggingface.architectures import CLASSES, NO_PADDING, find_architecture
from weft.interop.huggingface.generation_export import TokenIds, differences, generation_config
from weft.interop.huggingface.tokenizer_export import PADDING, TARGET_FOLDER, check_tokenizer, save_tokenizers
from weft.models.seq2seq import Seq2Seq
from weft.recipe import TransformerSettings
from weft.runs.load import LoadedRun
from weft.runs.weights import hash_tensors, model_tensors
from weft.text.external_engines import ByteEngine, PieceEngine, TokenizersEngine
from weft.text.imported import ImportedTokenizer
from weft.text.specials import END, UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

    from weft.text.tokenizer import Tokenizer

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PADDING_BIAS = -1e4
"""Output bias of a token that is never an output: p = 0 in every precision, and finite in all of them."""
TARGET_LENGTH = 1024
"""generation_config's max_length where positions set no limit."""
VOCABULARY = ("source_embedding.weight_VE", "target_embedding.weight_VE", "output.weight_VD", "output.bias_V")
"""Tensors with a row for each token."""


class ExportPlan(NamedTuple):
    """The content of an exported model."""

    kind: str
    """The model_type."""
    ids: TokenIds
    rows: int
    """Rows of the embedding and output matrices."""
    tensors: dict[str, Tensor]
    """Tensors by their names in weft, with the rows of the export."""
    orders: Mapping[str, list[int]]
    """The exported id of every id of weft, for source and target."""
    first_source_id: int = 0
    """Above 0 in a class with one table of embeddings, where source and target have separate embeddings."""


def export_model(run: LoadedRun, folder: Path, *, dtype: str = "float32") -> Path:
    """Write the folder; an earlier export in it is replaced. ``dtype``: the data type of the weights."""
    if dtype not in DTYPES:
        raise SearchError(f"--quantization {dtype}: not for huggingface; {nearest(dtype, DTYPES)}")
    check_replaceable(folder, "huggingface")
    plan = make_plan(run)
    weights = _weights(run, plan)

    def fill(temporary: Path) -> dict[str, Any]:
        from safetensors.torch import save

        write_description(temporary, run, plan, dtype)
        stored = {name: tensor.to(DTYPES[dtype], copy=True).contiguous() for name, tensor in weights.items()}
        with replacing(temporary / "model.safetensors") as file:
            file.write(save(stored, {"format": "pt"}))
        save_text(temporary / "README.md", card(run, plan))
        return {"model": CLASSES[plan.kind], "dtype": dtype, "weights": hash_tensors(model_tensors(run.model))}

    return write_export(folder, "huggingface", fill)


def write_description(folder: Path, run: LoadedRun, plan: ExportPlan, dtype: str = "float32") -> None:
    """Write config.json, generation_config.json and the tokenizers."""
    for name, content in (
        ("config.json", _config(run, plan, dtype)),
        ("generation_config.json", _generation(run, plan)),
    ):
        save_text(folder / name, json.dumps(content, indent=2) + "\n")
    longest = _longest(run) or TARGET_LENGTH
    first = plan.first_source_id
    save_tokenizers(folder, run.tokenizers, plan.kind, padding=plan.ids.padding, longest=longest, first=first)


def make_plan(run: LoadedRun) -> ExportPlan:
    """Decide which class is written, and number its tokens; one line says why if there is none."""
    name, recipe = run.recipe.name, run.recipe
    kind, reason = find_architecture(recipe)
    if kind is None:
        raise RecipeError(f"{name}: {reason}")
    if not isinstance(run.model, Seq2Seq):
        raise RecipeError(f"{name}: an ensemble is not a single model; export its runs one at a time")
    tokenizers = run.tokenizers
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        check_tokenizer(name, side, tokenizer)
    tensors, padding, first = model_tensors(run.model), _padding(tokenizers.source), 0
    if kind in ("t5", "umt5"):
        if padding is None:
            raise RecipeError(f"{name}: {NO_PADDING}")
        t5_weights.check_biases(name, tensors)
    orders = {side: _order(tokenizer) for side, tokenizer in zip(("source", "target"), tokenizers, strict=True)}
    if kind not in ("marian", "t5", "umt5") and recipe.model.tie in ("target", "none"):
        if padding is not None:
            tie = recipe.model.tie
            raise RecipeError(f"{name}: model.tie: {tie!r}: {CLASSES[kind]} has one embedding for both sides")
        first = tokenizers.target.size
        orders["source"] = [first + id for id in orders["source"]]
    if padding is None:
        padding = max(max(order) for order in orders.values()) + 1
    elif kind == "pegasus" and _is_m2m100(recipe.model, padding, tensors):
        kind = "m2m_100"
    rows = max(padding + 1, *(tokenizer.size for tokenizer in tokenizers))
    frame, target = tokenizers.frame, orders["target"]
    if len(frame.target_before) > 1:
        raise RecipeError(f"{name}: {len(frame.target_before)} tokens before each target; `generate` forces only one")
    forced = target[frame.target_before[0]] if frame.target_before else None
    ids = TokenIds(target[frame.begin], target[END], padding, target[UNKNOWN], forced)
    return ExportPlan(kind, ids, rows, _numbered(tensors, orders, rows), orders, first)


def _order(tokenizer: Tokenizer) -> list[int]:
    if isinstance(tokenizer, ImportedTokenizer):
        return list(tokenizer.vocabulary.order())
    return list(range(tokenizer.size))


def _padding(tokenizer: Tokenizer) -> int | None:
    """The padding token of an imported tokenizer; its begin token if none has that name."""
    if not isinstance(tokenizer, ImportedTokenizer):
        return None
    engine = tokenizer.engine
    if isinstance(engine, ByteEngine):
        return 0
    if isinstance(engine, PieceEngine):
        names = {name: id for id, name in enumerate(engine.table.names)}
    else:
        assert isinstance(engine, TokenizersEngine)
        names = engine.names()
    return names.get(PADDING, tokenizer.vocabulary.special[1])


def _is_m2m100(settings: Any, padding: int, tensors: Mapping[str, Tensor]) -> bool:
    """Whether positions and output are those of M2M100, which has no bias of the output."""
    return not tensors["output.bias_V"].any() and all(
        stack.positions == "sinusoidal" and stack.sinusoids == "tensor2tensor" and stack.first_position == padding + 1
        for stack in (settings.encoder, settings.decoder)
    )


def _numbered(tensors: Mapping[str, Tensor], orders: Mapping[str, list[int]], rows: int) -> dict[str, Tensor]:
    """The tensors with the rows of vocabularies in the order of the export."""
    numbered = dict(tensors)
    for name in VOCABULARY:
        if name not in tensors:
            continue
        own = tensors[name].float().cpu()
        new = own.new_full((rows, *own.shape[1:]), PADDING_BIAS if own.dim() == 1 else 0.0)
        new[torch.tensor(orders["source" if name.startswith("source") else "target"])] = own
        numbered[name] = new
    return numbered


def _weights(run: LoadedRun, plan: ExportPlan) -> dict[str, Tensor]:
    tensors = {name: tensor.float().cpu() for name, tensor in plan.tensors.items()}
    if plan.kind in ("t5", "umt5"):
        return t5_weights.weights(run.recipe.model, tensors)
    return bart_weights.weights(plan.kind, run.recipe.model, tensors)


def _longest(run: LoadedRun) -> int | None:
    """The most tokens that both sides can read; None: no limit."""
    decoder = run.recipe.model.decoder
    assert isinstance(decoder, TransformerSettings)
    return None if decoder.positions == "relative" else bart_weights.positions(run.recipe.model)


def _config(run: LoadedRun, plan: ExportPlan, dtype: str) -> dict[str, Any]:
    """config.json."""
    settings = run.recipe.model
    is_t5 = plan.kind in ("t5", "umt5")
    config = t5_weights.configuration(settings) if is_t5 else bart_weights.configuration(plan.kind, settings)
    if plan.kind == "marian":
        config["decoder_vocab_size"] = plan.rows
    ids = {name: value for name, value in plan.ids.to_json().items() if name != "forced_bos_token_id"}
    return {
        "architectures": [CLASSES[plan.kind]],
        "model_type": plan.kind,
        "is_encoder_decoder": True,
        "vocab_size": plan.rows,
        **config,
        **ids,
        "forced_eos_token_id": None,
        "use_cache": True,
        "torch_dtype": dtype,
    }


def _generation(run: LoadedRun, plan: ExportPlan) -> dict[str, Any]:
    search = run.recipe.search
    target = plan.orders["target"]
    return generation_config(
        search,
        plan.ids,
        max_length=_longest(run) or TARGET_LENGTH,
        vocabulary=run.tokenizers.target.size,
        banned=[[target[id] for id in phrase] for phrase in search.banned_ids],
    )


def card(run: LoadedRun, plan: ExportPlan) -> str:
    """README.md of the folder: what the model is, how it is used, and what differs."""
    recipe = run.recipe
    size = sum(tensor.numel() for tensor in model_tensors(run.model).values())
    one_tokenizer = run.tokenizers.joint and not plan.first_source_id
    target = "tokenizer" if one_tokenizer else "target_tokenizer"
    load_target = [f'target_tokenizer = AutoTokenizer.from_pretrained(folder, subfolder="{TARGET_FOLDER}")']
    languages = run.tokenizers.languages
    lines = [
        *("---", "library_name: transformers", "pipeline_tag: translation", "tags:", "- weft", f"- {plan.kind}", "---"),
        *(f"# {recipe.name}", "", recipe.summary or "A sequence-to-sequence model.", ""),
        f"- class: `{CLASSES[plan.kind]}`, exported by weft {weft.__version__}",
        f"- parameters: {size:,}; vocabulary: {plan.rows:,}",
        *([f"- languages: {', '.join(languages)}"] if languages else []),
        *("", "## Use", "```python", "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer", ""),
        'folder = "."  # this folder, or its name on the Hub',
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        *([] if one_tokenizer else load_target),
        "model = AutoModelForSeq2SeqLM.from_pretrained(folder)",
        'batch = tokenizer(["your text"], return_tensors="pt", padding=True)',
        "outputs = model.generate(input_ids=batch.input_ids, attention_mask=batch.attention_mask)",
        f"{target}.batch_decode(outputs, skip_special_tokens=True)",
        *(
            "```",
            "",
            "## Differences from weft",
            "`generation_config.json` has the search settings of the run, except:",
        ),
        *(f"- {line}" for line in differences(recipe.search, run.tokenizers.target.size)),
        "- text that spells a special token, such as `</s>`, is read as that token",
        "",
    ]
    return "\n".join(lines)
