"""Everything that exists for speed, and the only place that chooses it.

`VERSIONS` has a line for each function of the core that has a faster version: its name, where the faster version is,
when it applies, and the test that compares the two. The core never asks for a device or a kernel: it marks such
functions `weft.runtime.replaceable.replaceable`. Without this package weft is slower and just as correct.

To add one: mark the plain function, write the faster one and when it applies, add its line here, and write its test.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Any


class Version:
    """A faster version of a plain function. Its module is imported when the plain function is first called."""

    def __init__(self, plain: str, fast: str, *, applies: str, test: str = "", device: str = "") -> None:
        """``plain``: the function or method of the core, below `weft`. ``fast``: the faster one, ``module:function``
        below `weft.fast`. ``applies``: a function of its module: whether it can be used. All three have the same
        parameters. ``test``: what compares the two, below ``tests/fast``, if it is not the test of the module.
        ``device``: "cuda" if it is for GPUs alone.
        """
        self.plain = plain
        self.fast = fast
        self.condition = applies
        folder, _, module = fast.partition(":")[0].rpartition(".")
        self.test = test or f"{folder}/test_{module}.py".removeprefix("/")
        self.device = device

    @cached_property
    def call(self) -> Any:
        module, _, name = self.fast.partition(":")
        return getattr(import_module(f"weft.fast.{module}"), name)

    @cached_property
    def applies(self) -> Any:
        return getattr(import_module(f"weft.fast.{self.fast.partition(':')[0]}"), self.condition)


VERSIONS: tuple[Version, ...] = (
    # search: steps
    Version(
        "search.loop.steps_for",
        "steps.one_sentence_transformer:one_sentence_steps",
        applies="is_one_sentence_on_cpu",
        test="steps/test_one_sentence_transformer_choose.py",
    ),
    Version(
        "search.sampling.greedy_search",
        "steps.native_search:native_greedy_search",
        applies="is_native_greedy",
    ),
    Version("search.beam.beam_search", "steps.native_beam:native_beam_search", applies="is_native_beam"),
    Version("search.beam.BeamStep.update", "searching.fused_beam:fused_update", applies="is_fused", device="cuda"),
    Version(
        "search.beam.BeamStep.update",
        "searching.top_k:native_update",
        applies="is_native_update",
        test="searching/test_top_k_native_update.py",
    ),
    Version("search.beam.backtrace", "searching.fused_beam:packed_backtrace", applies="is_packed", device="cuda"),
    Version("search.sampling.PathStep.update", "searching.fused_paths:fused_update", applies="is_fused", device="cuda"),
    Version(
        "search.paths.path_hypotheses",
        "searching.fused_paths:pending_hypotheses",
        applies="is_on_gpu",
        device="cuda",
    ),
    Version(
        "search.constraints.top_k_constrained",
        "searching.top_k:top_k_by_kernel",
        applies="allows_kernel",
        device="cuda",
        test="triton/test_top_k.py",
    ),
    Version("search.constraints.top_k_extensions", "searching.top_k:top_k_by_blocks", applies="has_many_blocks"),
    Version("search.constraints.first_largest", "searching.top_k:first_largest_by_numpy", applies="is_float_on_cpu"),
    Version("search.constraints.log_sum_exp", "searching.top_k:literal_log_sum_exp", applies="is_float_on_cpu"),
    Version(
        "search.constraints.log_sum_exp",
        "searching.top_k:log_sum_exp_by_softmax",
        applies="is_float_on_gpu",
        device="cuda",
    ),
    # translation: how an engine and the stages around it are carried out
    Version(
        "translation.engines.torch.make_execution",
        "overlap.search_threads:ThreadedExecution",
        applies="is_on_cpu",
    ),
    Version(
        "translation.engines.torch.make_execution",
        "recording.execution:recorded_execution",
        applies="is_on_gpu",
        device="cuda",
    ),
    Version(
        "translation.engines.batch_sizes.sentence_bytes",
        "recording.batch_memory:recorded_bytes",
        applies="is_on_gpu",
        device="cuda",
    ),
    Version(
        "translation.engines.batch_sizes.fitting_batch",
        "recording.batch_memory:recorded_batch",
        applies="is_gpu",
        device="cuda",
    ),
    Version(
        "runtime.devices.start_device",
        "recording.compilation:prepare_compiler",
        applies="is_compiled_for",
        device="cuda",
    ),
    Version(
        "translation.pipeline.Pipeline.overlaps",
        "overlap.pipeline:gpu_overlaps",
        applies="is_on_gpu",
        device="cuda",
    ),
    Version(
        "translation.pipeline.Pipeline.search_each",
        "overlap.pipeline:search_in_background",
        applies="stages_overlap",
    ),
    Version("translation.load.to_int8", "steps.quantization:quantize", applies="is_always"),
    Version("search.loop.to_device", "searching.transfers:to_gpu", applies="goes_to_gpu", device="cuda"),
    Version(
        "search.loop.longest_output",
        "recording.execution:rounded_longest_output",
        applies="is_gpu_search",
        device="cuda",
    ),
    # training
    Version(
        "training.update.make_update",
        "updating.cuda_graph_update:CudaGraphUpdate",
        applies="is_captured",
        device="cuda",
    ),
    Version("training.update.make_update", "updating.threaded_update:ThreadedUpdate", applies="can_divide"),
    Version(
        "training.update.decide_compilation",
        "updating.cuda_graph_update:decide_compilation",
        applies="is_undecided",
        device="cuda",
    ),
    Version("training.optimizer.optimizer_class", "torch_private:eager_optimizer_class", applies="is_optimizer"),
    Version("training.loss.output_loss", "updating.chunked_loss:output_loss", applies="has_chunked_loss"),
    Version(
        "models.copying.vocabulary_log_probabilities",
        "updating.chunked_loss:vocabulary_log_probabilities",
        applies="is_trained",
    ),
    # models
    Version("models.layers.dropped", "layers.dropout:dropped", applies="is_on_cpu"),
    Version("models.layers.add_dropped", "layers.dropout:add_dropped", applies="adds_on_cpu"),
    Version(
        "attention.ragged_attention.RaggedAttention.attend",
        "layers.varlen_attention:attend",
        device="cuda",
        applies="applies",
    ),
    Version(
        "attention.ragged_attention.RaggedAttention.attend",
        "layers.transformer:attend_padded",
        applies="applies_to_padded",
        test="layers/test_transformer_padded_attention.py",
    ),
    Version(
        "attention.attention.Attention.forward",
        "steps.additive_attention:few_queries",
        applies="is_few_queries",
        device="cuda",
        test="triton/test_additive_attention.py",
    ),
    Version("models.layers.normalize", "layers.transformer:normalize", device="cuda", applies="applies_to_normalize"),
    Version(
        "models.transformer.TransformerStack.embed",
        "layers.transformer:embed",
        device="cuda",
        applies="applies_to_embed",
    ),
    Version(
        "models.transformer.TransformerStack.forward",
        "layers.transformer:forward",
        device="cuda",
        applies="applies_to_forward",
    ),
    Version(
        "models.transformer.TransformerLayer.forward",
        "layers.transformer:layer_forward",
        device="cuda",
        applies="applies_to_layer",
    ),
    Version(
        "models.transformer_decoder.TransformerDecoder.step",
        "steps.cached_transformer:decoder_step",
        applies="is_cached_decoder",
    ),
    Version("models.transformer_decoder.TransformerDecoder.step", "steps.cpu_transformer:step", applies="applies"),
    Version(
        "models.transformer_decoder.TransformerDecoder.build_memory",
        "layers.transformer:build_memory",
        applies="applies_to_memory",
        test="layers/test_transformer_source_memory.py",
    ),
    Version("models.language_model.RecurrentLanguageModel.step", "steps.cached_history:step", applies="is_cached"),
    Version("models.prefix_lm.PrefixLM.step", "steps.cached_transformer:lm_step", applies="is_cached_lm"),
    Version(
        "models.prompted_lm.PromptedLM.encode",
        "recording.prompts:encode_padded",
        device="cuda",
        applies="has_many_shapes",
        test="recording/test_prompts_read_at_once.py",
    ),
    Version(
        "models.prompted_lm.read_prompts",
        "recording.prompts:read_prompts",
        device="cuda",
        applies="reads_at_once",
        test="recording/test_prompts_read_at_once.py",
    ),
    Version("training.ctc.label_losses", "updating.ctc_loss:label_losses_by_torch", applies="has_kernel"),
    Version("models.hard_attention.chunk_values", "updating.chunked_loss:emission_chunk", applies="is_on_gpu"),
    Version(
        "attention.hard_alignment.HardAlignment.forward",
        "layers.hard_alignment:first_order_by_kernel",
        applies="has_kernel",
        device="cuda",
        test="triton/test_first_order_alignment.py",
    ),
    Version("models.stems.Stem.ragged", "layers.ragged_stem:ragged", applies="is_on_gpu", device="cuda"),
    Version("models.recurrent.LSTM.step", "layers.recurrent:fused_lstm_cell", applies="is_on_gpu", device="cuda"),
    Version("models.recurrent.RecurrentStack.forward", "layers.recurrent:padded", applies="is_padded"),
    Version("models.recurrent.RecurrentStack.forward", "layers.recurrent:by_cudnn", applies="has_cudnn"),
    Version("models.recurrent.RecurrentStack.forward", "layers.recurrent:lstm", applies="is_lstm"),
    Version("models.recurrent.RecurrentStack.forward", "layers.recurrent:deferred", applies="is_trained"),
    Version(
        "models.recurrent_decoder.RecurrentDecoder.run",
        "layers.recurrent_decoder:whole_layers",
        applies="is_layer_by_layer",
    ),
    Version(
        "models.recurrent_decoder.RecurrentDecoder.run",
        "layers.padded_input_feeding:padded_input_feeding",
        applies="is_padded_input_feeding",
        device="cuda",
        test="triton/test_input_feeding.py",
    ),
    Version(
        "models.recurrent_decoder.RecurrentDecoder.run",
        "layers.recurrent_decoder:input_feeding",
        applies="is_input_feeding_lstm",
        test="cpu/test_input_feeding.py",
    ),
    Version(
        "models.recurrent_decoder.RecurrentDecoder.run",
        "layers.recurrent_decoder:deferred_steps",
        applies="is_step_by_step",
    ),
)
"""The table of choices: among several versions of a function, the first that applies is used."""


def versions(name: str) -> Sequence[Version]:
    """The faster versions of a function of the core on this machine."""
    return [version for version in VERSIONS if version.plain == name and (not version.device or _has_gpu())]


@cache
def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def load_versions() -> None:
    """Import all faster versions of functions that the layers of a model call, before these are compiled."""
    from weft.attention.ragged_attention import RaggedAttention
    from weft.models import layers
    from weft.models.transformer import TransformerLayer

    functions: list[Any] = [layers.dropped, layers.add_dropped, layers.normalize, TransformerLayer.forward]
    for function in (RaggedAttention.attend, *functions):
        for version in function.load():
            assert version.applies and version.call
