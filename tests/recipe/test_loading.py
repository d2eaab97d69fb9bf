"""Recipes: what is refused and in which words, and that what is written is what is read."""

import json
import math
import tomllib
from typing import Literal, NamedTuple, get_args, get_origin

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from weft.errors import RecipeError
from weft.evaluation.metrics import METRICS, check_metrics
from weft.recipe import (
    AttentionSettings,
    Recipe,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
    TransformerDecoderSettings,
    TransformerEncoderSettings,
    load_recipe,
    make_recipe,
    shipped,
)
from weft.recipe.base import MAX_COUNT
from weft.recipe.choices import Choice
from weft.recipe.data import ParallelFiles, TableFile
from weft.recipe.toml import settings_of, write_toml

TRANSFORMER = ["model.encoder.kind=transformer", "model.decoder.kind=transformer"]
FAMILIES = {"recurrent": Recipe(), "transformer": make_recipe({}, TRANSFORMER)}
NAMES = {family: [setting.name for setting in settings_of(recipe)] for family, recipe in FAMILIES.items()}


class Case(NamedTuple):
    """A setting, and the family of stacks in whose recipes it stands."""

    name: str
    family: str

    @property
    def field(self):
        """Its declaration."""
        group = FAMILIES[self.family]
        *groups, last = self.name.split(".")
        for part in groups:
            group = getattr(group, part)
        return type(group).model_fields[type(group).attributes()[last]]

    @property
    def annotation(self):
        """Its type; what may also be left out, as if it may not."""
        found = self.field.annotation
        parts = [part for part in get_args(found) if part is not type(None)]
        if type(None) in get_args(found) and len(parts) == 1:
            return get_args(parts[0])[0] if hasattr(parts[0], "__metadata__") else parts[0]
        return found

    @property
    def bounds(self):
        """``{"ge": 1}`` and the like."""
        constraints = list(self.field.metadata)
        for part in get_args(self.field.annotation):
            constraints += [one for mark in getattr(part, "__metadata__", ()) for one in getattr(mark, "metadata", ())]
        names = ("ge", "gt", "le", "lt")
        return {bound: getattr(one, bound) for one in constraints for bound in names if hasattr(one, bound)}

    def tree(self, value, *, suffix=""):
        """A recipe with this one setting: nested dictionaries. ``suffix``: of its name."""
        *groups, last = self.name.split(".")
        tree = {last + suffix: value}
        if self.family == "transformer" and last + suffix != "kind":
            tree["kind"] = "transformer"
        for group in reversed(groups):
            tree = {group: tree}
        return tree


CASES = [Case(name, "recurrent") for name in NAMES["recurrent"]]
CASES += [
    Case(name, "transformer") for name in NAMES["transformer"] if name.startswith(("model.encoder.", "model.dec"))
]
BOUNDED = [case for case in CASES if case.bounds and case.annotation in (int, float)]


def every(cases):
    """A test of each of them."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.name} ({case.family})")


def tree_of(name, value):
    """A recipe with one setting: nested dictionaries."""
    return Case(name, "recurrent").tree(value)


def refusal(tree, *changes):
    """The one line with which a recipe is refused."""
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree, changes)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 500
    return message


def numbers(*kinds):
    return every([case for case in CASES if case.annotation in kinds])


class TestUnknownSettings:
    @every(CASES)
    def test_every_setting_is_suggested_for_its_misspelling(self, case):
        message = refusal(case.tree(1, suffix="x"))
        assert message == f"{case.name}x: unknown setting; did you mean {case.name.rpartition('.')[2]!r}?"

    @pytest.mark.parametrize("side", ["encoder", "decoder"])
    @pytest.mark.parametrize(("kind", "name"), [("lstm", "norm_placement"), ("transformer", "connections")])
    def test_what_the_other_family_has_is_unknown(self, side, kind, name):
        message = refusal({"model": {side: {"kind": kind, name: 1}}})
        assert message.startswith(f"model.{side}.{name}: unknown setting; ")

    @pytest.mark.parametrize("name", ["modle", "data.trian", "model.encodr", "model.attention.scor"])
    def test_it_says_the_same_of_set(self, name):
        message = refusal({}, f"{name}=1")
        assert message.startswith(f"{name}: unknown setting; did you mean '")

    def test_a_group_may_be_misspelt(self):
        assert refusal({"trainig": {"steps": 1}}) == "trainig: unknown setting; did you mean 'training'?"

    def test_without_a_near_name_all_are_listed(self):
        message = refusal({"evaluation": {"zzz": 1}})
        assert message == "evaluation.zzz: unknown setting; choose one of metrics, former, references"

    @pytest.mark.parametrize("name", ["training.strategy", "search.strict", "data.stride"])
    def test_no_part_of_a_name_is_lost(self, name):
        assert refusal(tree_of(name, 1)).startswith(f"{name}: unknown setting; ")

    def test_inside_a_pair_of_files(self):
        files = {"source": "a.txt", "targt": "b.txt"}
        assert refusal({"data": {"train": files}}).startswith(
            "data.train.targt: unknown setting; did you mean 'target'"
        )

    def test_a_missing_half_of_a_pair_of_files_is_named(self):
        message = refusal({"data": {"train": {"source": "a.txt"}}})
        assert message.startswith("data.train") and "target" in message

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({"fiel": "a.tsv", "source": [1], "target": [2]}, ".fiel: unknown setting; did you mean 'file'?"),
            ({"file": "a.tsv", "source": [1], "targt": [2]}, ".targt: unknown setting; did you mean 'target'?"),
            ({"source": [1], "target": [2]}, ".file: missing"),
            ({"file": "a.tsv", "source": [1]}, ".target: missing"),
            (
                {"file": 7, "source": [1], "target": [2]},
                ".file: 7 was given; expected a file's name, or a list of them",
            ),
            ({"file": "a.tsv", "source": 1.5, "target": [2]}, ".source: 1.5 was given; expected a column's name"),
            (
                {"file": "a.tsv", "source": [], "target": [2]},
                ".source: [] was given; expected a column's name or number",
            ),
            (
                {"file": "a.tsv", "source": [1, 0], "target": [2]},
                ".source: [1, 0] was given; expected a column's name, or its number from 1 on",
            ),
            (
                {"file": "a.tsv", "source": [1], "target": ["form", ""]},
                ".target: ['form', ''] was given; expected a column's name",
            ),
            (
                {"file": "a.tsv", "source": [1, 2], "target": [3], "tags": [2, 4]},
                ".tags: [2, 4] was given; column 4 is in neither source nor target",
            ),
        ],
    )
    @pytest.mark.parametrize("split", ["train", "valid", "test"])
    def test_inside_a_table(self, split, table, message):
        assert refusal({"data": {split: table}}).startswith(f"data.{split}{message}")

    def test_a_name_with_a_line_end_still_makes_one_line(self):
        refusal({"a\nb": 1})

    def test_all_mistakes_are_listed(self):
        with pytest.raises(RecipeError) as caught:
            make_recipe({"training": {"steps": 0}, "nam": 1, "seed": "x", "sumary": 3}, where="r.toml: ")
        assert str(caught.value).split("\n") == [
            "r.toml: nam: unknown setting; did you mean 'name'?",
            "r.toml: sumary: unknown setting; did you mean 'summary'?",
            "r.toml: seed: 'x' was given; input should be a valid integer",
            "r.toml: training.steps: 0 was given; input should be greater than or equal to 1",
        ]

    def test_settings_that_contradict_each_other_are_all_listed(self):
        with pytest.raises(RecipeError) as caught:
            make_recipe({}, ["model.tie=all", "tokenizer.joint=false", "tokenizer.extend=true"])
        assert [line.partition(":")[0] for line in str(caught.value).split("\n")] == ["model.tie", "tokenizer.extend"]

    def test_very_many_mistakes_are_counted(self):
        with pytest.raises(RecipeError) as caught:
            make_recipe({f"x{number}": 1 for number in range(100)})
        assert len(lines := str(caught.value).split("\n")) == 21 and lines[-1] == "and 80 more errors"


def wrong_for(case):
    """A value of a type that no setting of this kind takes."""
    corpora = case.name in ("data.train", "data.valid", "data.test")
    return 7 if corpora or get_origin(case.annotation) in (list, dict) else [7]


class TestValues:
    @every(CASES)
    def test_a_wrong_type_is_refused(self, case):
        message = refusal(case.tree(wrong := wrong_for(case)))
        if case.name == "search.batch_tokens":  # a number or a word
            assert message == f"{case.name}: [7] was given; expected a whole number from 1 to {MAX_COUNT}, or auto"
        elif case.name == "search.memory":  # a share or bytes
            assert message.startswith(f"{case.name}: [7] was given; expected a share of the free memory, ")
        else:
            assert message.startswith(f"{case.name}: {wrong!r} was given; input should be ")

    @every(CASES)
    def test_one_mistake_counts_as_one(self, case):
        assert "more)" not in refusal(case.tree(wrong_for(case)))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("training.steps=many", "training.steps: 'many' was given; input should be a valid integer"),
            ("training.steps=", "training.steps: '' was given; input should be a valid integer"),
            ("training.steps='5'", "training.steps: '5' was given; input should be a valid integer"),
            ("training.steps=5.0", "training.steps: 5.0 was given; input should be a valid integer"),
            ("training.steps=true", "training.steps: True was given; input should be a valid integer"),
            ("model.dropout=no", "model.dropout: 'no' was given; input should be a valid number"),
            ("tokenizer.joint=1", "tokenizer.joint: 1 was given; input should be a valid boolean"),
            ("name=5", "name: 5 was given; input should be a valid string"),
            ("evaluation.metrics=bleu", "evaluation.metrics: 'bleu' was given; input should be a valid list"),
            ("evaluation.metrics=['bleu', 3]", "evaluation.metrics.1: 3 was given; input should be a valid string"),
            ("model.encoder.kind=gruu", "model.encoder.kind: 'gruu' was given; did you mean 'gru'?"),
            (
                "model.decoder.kind=transformr",
                "model.decoder.kind: 'transformr' was given; did you mean 'transformer'?",
            ),
            ("model.encoder.kind=atention", "model.encoder.kind: 'atention' was given; did you mean 'attention'?"),
            (
                "model.encoder.kind=cnn2d",
                "model.encoder.kind: 'cnn2d' was given; choose one of rnn, gru, lstm, transformer, attention",
            ),
            (
                "model.decoder.kind=attention",
                "model.decoder.kind: 'attention' was given; choose one of rnn, gru, lstm, transformer",
            ),
            (
                "model.kind=prefix",
                "model.kind: 'prefix' was given; input should be 'seq2seq', 'language_model', 'prefix_lm' or 'ctc'",
            ),
            (
                "training.precision=fp16",
                "training.precision: 'fp16' was given; input should be 'auto', 'fp32', 'tf32' or 'bf16'",
            ),
            ("training.compile=true", "training.compile: True was given; input should be 'auto', 'on' or 'off'"),
            (
                "model.encoder.kind=7",
                "model.encoder.kind: 7 was given; input should be 'rnn', 'gru', 'lstm', 'transformer' or 'attention'",
            ),
            (
                "model.decoder.kind=7",
                "model.decoder.kind: 7 was given; input should be 'rnn', 'gru', 'lstm' or 'transformer'",
            ),
            ("model=3", "model: 3 was given; it is a group of settings: model.kind, model.embedding, model.tie, "),
            (
                "data.holdout=0.1",
                "data.holdout: 0.1 was given; it is a group of settings: data.holdout.valid, data.holdout.test",
            ),
            ("data.options.length=[1]", "data.options.length: [1] was given; "),
        ],
    )
    def test_what_was_given_and_what_is_allowed(self, change, message):
        assert refusal({}, change).startswith(message)

    @every(BOUNDED)
    def test_out_of_range(self, case):
        for bound, limit in case.bounds.items():
            step = 1 if case.annotation is int else 0.5
            value = case.annotation({"ge": limit - step, "gt": limit, "le": limit + step, "lt": limit}[bound])
            words = {
                "ge": "greater than or equal to",
                "gt": "greater than",
                "le": "less than or equal to",
                "lt": "less than",
            }
            shown = limit if isinstance(limit, int) else f"{limit:g}"
            expected = f"{case.name}: {value!r} was given; input should be {words[bound]} {shown}"
            assert refusal(case.tree(value)) == expected

    @every(BOUNDED)
    def test_the_edge_itself_is_allowed(self, case):
        agreeing = ["model.encoder.bidirectional=false"] if case.family == "recurrent" else []
        if case.name == "training.lora.rank":
            agreeing = ['training.start="runs/base"']
        if case.name.startswith("training.augmentation."):
            kind = "frames" if "_mask" in case.name else "picture"
            stem = "frames" if kind == "frames" else "columns"
            agreeing += [f'tokenizer.kind="{kind}"', "tokenizer.joint=false", 'tokenizer.target_kind="bpe"']
            agreeing += [f'model.stem.kind="{stem}"']
        if case.family == "transformer" and case.name.endswith(".hidden"):
            agreeing = [case.name.replace("hidden", "heads") + "=1"]
        coupled = {"search.groups", "model.encoder.heads", "model.decoder.heads"}  # the largest needs another setting
        coupled |= {"model.encoder.key_value_heads", "model.decoder.key_value_heads"}
        for bound, limit in case.bounds.items():
            if bound == "ge" or (bound == "le" and case.name not in coupled):
                if case.name == "training.validate_every":
                    continue
                make_recipe(case.tree(case.annotation(limit)), agreeing)

    @numbers(float)
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_numbers_are_finite(self, case, value):
        assert refusal(case.tree(value)).startswith(f"{case.name}: {value} was given; ")

    @numbers(float)
    def test_a_whole_number_may_stand_for_a_real_one(self, case):
        lowest = max(case.bounds.get("gt", -1), case.bounds.get("ge", 0) - 1)
        highest = case.bounds.get("lt", 2)
        lowest = 0 if case.name == "search.memory" else lowest  # a share, or bytes
        whole = next((value for value in (0, 1) if lowest < value < highest), None)
        if whole is not None:
            recipe = make_recipe(case.tree(whole))
            assert {one.name: one.value for one in settings_of(recipe)}[case.name] == whole

    @pytest.mark.parametrize(
        ("kind", "encoder", "decoder"),
        [
            ("rnn", RecurrentEncoderSettings, RecurrentDecoderSettings),
            ("gru", RecurrentEncoderSettings, RecurrentDecoderSettings),
            ("lstm", RecurrentEncoderSettings, RecurrentDecoderSettings),
            ("transformer", TransformerEncoderSettings, TransformerDecoderSettings),
            ("attention", TransformerEncoderSettings, None),
        ],
    )
    def test_the_kind_says_which_settings_a_stack_has(self, kind, encoder, decoder):
        assert type(make_recipe({}, [f"model.encoder.kind={kind}"]).model.encoder) is encoder
        if decoder:
            assert type(make_recipe({}, [f"model.decoder.kind={kind}"]).model.decoder) is decoder

    def test_the_kind_is_lstm_unless_set(self):
        recipe = make_recipe({}, ["model.encoder.layers=3", "model.decoder.layers=2"])
        assert (recipe.model.encoder.kind, recipe.model.decoder.kind) == ("lstm", "lstm")
        assert type(recipe.model.attention) is AttentionSettings


def contradictions_of_transformers():
    """Changes and what is said of them, on either side."""
    for side in ("encoder", "decoder"):
        where, kind = f"model.{side}", f"model.{side}.kind=transformer"
        yield [kind, f"{where}.heads=7"], f"{where}.heads: 7 heads do not divide the width 512 ({where}.hidden)"
        yield (
            [kind, f"{where}.hidden=36"],
            f"{where}.heads: 8 heads do not divide the width 36 ({where}.hidden)",
        )
        for shared in (3, 16):
            yield (
                [kind, f"{where}.key_value_heads={shared}"],
                f"{where}.key_value_heads: {shared} do not divide the 8 heads ({where}.heads)",
            )
        yield (
            [kind, f"{where}.hidden=40", f"{where}.positions=rotary"],
            f"{where}.positions: 'rotary' rotates pairs of dimensions; a head has 5, an odd number",
        )
        yield (
            [kind, f"{where}.positions=rotary", f"{where}.head_size=7"],
            f"{where}.positions: 'rotary' rotates pairs of dimensions; a head has 7, an odd number",
        )
        yield (
            [kind, f"{where}.positions=relative", f"{where}.relative_max_distance=16"],
            f"{where}.relative_max_distance: 16 is not above half of {where}.relative_buckets = 32; "
            "raise one or lower the other",
        )
        yield (
            [kind, f"{where}.positions=learned", f"{where}.max_positions=250"],
            f"{where}.max_positions: 250 is below data.max_length + 1 = 251; raise one or lower the other",
        )
        yield (
            [kind, f"{where}.positions=learned", "data.max_length=1024"],
            f"{where}.max_positions: 1024 is below data.max_length + 1 = 1025; raise one or lower the other",
        )
    yield (
        ["model.encoder.kind=attention", "model.encoder.heads=7"],
        "model.encoder.heads: 7 heads do not divide the width 512 (model.encoder.hidden)",
    )
    one_stack = ["model.kind=prefix_lm", "model.decoder.kind=transformer", "model.decoder.positions=learned"]
    yield (
        [*one_stack, "model.decoder.max_positions=501"],
        "model.decoder.max_positions: 501 is below 2 * (data.max_length + 1) = 502; raise one or lower the other",
    )
    for kind in ("rnn", "gru", "lstm"):
        yield (
            ["model.kind=prefix_lm", f"model.decoder.kind={kind}"],
            "model.kind: 'prefix_lm' is one Transformer stack; set model.decoder.kind = 'transformer'",
        )


CONTRADICTIONS_OF_TRANSFORMERS = list(contradictions_of_transformers())
NEIGHBORS_OF_TRANSFORMERS = [
    [f"model.{side}.kind=transformer", *(f"model.{side}.{change}" for change in changes)]
    for side in ("encoder", "decoder")
    for changes in (
        [],
        ["heads=1", "hidden=37"],
        ["heads=16"],
        ["key_value_heads=8"],
        ["key_value_heads=2"],
        ["hidden=40"],
        ["hidden=48", "positions=rotary"],
        ["positions=learned", "max_positions=251"],
        ["max_positions=250"],
    )
] + [
    ["model.encoder.kind=attention"],
    ["model.kind=prefix_lm", "model.decoder.kind=transformer"],
    [
        "model.kind=prefix_lm",
        "model.decoder.kind=transformer",
        "model.decoder.positions=learned",
        "model.decoder.max_positions=502",
    ],
    ["model.kind=language_model", "model.decoder.kind=transformer"],
    ["model.kind=language_model", "model.decoder.kind=transformer", "training.precision=bf16"],
    ["model.kind=prefix_lm", "model.decoder.kind=transformer", "training.precision=bf16"],
    ["model.encoder.kind=attention", "model.decoder.kind=transformer", "training.precision=bf16"],
    ["training.precision=tf32"],
    ["model.encoder.kind=transformer", "model.decoder.kind=gru"],
    ["model.encoder.kind=gru", "model.decoder.kind=transformer"],
]


class TestContradictions:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                ["model.encoder.hidden=17"],
                "model.encoder.hidden: 17 is odd; two directions need an even width",
            ),
            (
                ["model.encoder.reverse_source=true"],
                "model.encoder.reverse_source: a bidirectional encoder already reads both ways",
            ),
            (
                ["model.decoder.input_feeding=true", "model.attention.score=none"],
                "model.decoder.input_feeding: needs an attention placed 'after' the step; "
                "set model.attention.score and model.attention.placement",
            ),
            (
                ["model.decoder.input_feeding=true", "model.attention.placement=before"],
                "model.decoder.input_feeding: needs an attention placed 'after' the step; "
                "set model.attention.score and model.attention.placement",
            ),
            (
                ["model.attention.score=parameter_free", "model.attention.project=true"],
                "model.attention.project: a parameter-free attention learns no projections; use 'dot'",
            ),
            (
                ["model.decoder.kind=transformer", "model.attention.window=predictive"],
                "model.attention.window: not available for Transformers; set model.decoder.kind = 'lstm' or 'gru'",
            ),
            (
                ["model.attention.score=general", "model.attention.coverage=sum"],
                "model.attention.coverage: needs the hidden layer of an additive score; "
                "set model.attention.score = 'additive' or 'concat' (it is 'general')",
            ),
            (
                ["model.kind=language_model", "model.attention.score=additive", "model.attention.location=true"],
                "model.attention.location: a language model has no source to attend to; use model.kind = 'seq2seq'",
            ),
            (
                ["model.attention.score=none", "model.attention.window=monotonic"],
                "model.attention.window: this model has no attention; set model.attention.score",
            ),
            (
                ["model.attention.score=additive", "model.attention.location=true", "model.attention.location_width=4"],
                "model.attention.location_width: 4 is even; choose an odd number",
            ),
            (
                ["model.attention.hard=first", "model.decoder.kind=transformer"],
                "model.attention.hard: 'first' needs a recurrent decoder; set model.decoder.kind = 'lstm' or 'gru'",
            ),
            (
                ["model.attention.hard=monotonic", "model.kind=language_model"],
                "model.attention.hard: 'monotonic' aligns a target with a source; use model.kind = 'seq2seq'",
            ),
            (
                ["model.attention.hard=zeroth", "model.attention.score=none"],
                "model.attention.hard: 'zeroth' needs a score; set model.attention.score",
            ),
            *(
                (
                    ["model.attention.hard=zeroth", f"model.{setting}"],
                    f"model.{setting.split('=')[0]}: hard attention has no weighted sum of source states; "
                    f"set it to {neutral}",
                )
                for setting, neutral in (
                    ("decoder.input_feeding=true", "false"),
                    ("decoder.feed_summary=true", "false"),
                    ("attention.placement=before", "'after'"),
                    ("attention.normalizer=entmax15", "'softmax'"),
                    ("attention.window=monotonic", "'none'"),
                    ("attention.project=true", "false"),
                )
            ),
            *(
                (
                    ["model.attention.hard=zeroth", "model.attention.score=additive", f"model.{setting}"],
                    f"model.{setting.split('=')[0]}: hard attention has no weighted sum of source states; "
                    f"set it to {neutral}",
                )
                for setting, neutral in (("attention.coverage=sum", "'none'"), ("attention.location=true", "false"))
            ),
            (
                ["model.attention.score=none", "training.coverage_loss=1"],
                "training.coverage_loss: this model has no attention to a source; set it to 0",
            ),
            (
                ["model.copy=true", "model.attention.score=none"],
                "model.copy: this model has no attention to copy by; set model.attention.score",
            ),
            (
                ["model.copy=true", "model.kind=language_model"],
                "model.copy: needs an encoder to copy from; model.kind is 'language_model', use 'seq2seq'",
            ),
            (
                ["model.copy=true", "model.kind=prefix_lm", "model.decoder.kind=transformer"],
                "model.copy: needs an encoder to copy from; model.kind is 'prefix_lm', use 'seq2seq'",
            ),
            (
                ["model.copy=true", "training.loss=entmax15", "training.label_smoothing=0"],
                "model.copy: mixes two distributions; it needs training.loss = 'cross_entropy'",
            ),
            (
                ["model.copy=true", "training.forcing=free", "training.label_smoothing=0.1"],
                "training.label_smoothing: with model.copy it needs training.forcing = 'teacher'; set it to 0",
            ),
            (
                ["training.forcing=free", "training.coverage_loss=1"],
                "training.coverage_loss: needs training.forcing = 'teacher'",
            ),
            (
                ["training.consistency=5", "training.forcing=free"],
                "training.consistency: 5 compares two passes over the same inputs; it needs "
                "training.forcing = 'teacher'",
            ),
            (
                ["training.consistency=2.5", "training.loss=entmax15", "training.label_smoothing=0"],
                "training.consistency: 2.5 needs probabilities above zero; set training.loss = 'cross_entropy'",
            ),
            (
                ["training.consistency=5", "model.dropout=0"],
                "training.consistency: 5 compares two passes that without dropout are the same; set model.dropout",
            ),
            (
                ["training.consistency=5", "training.shard=full"],
                "training.consistency: 5 is not for sharded weights; set training.shard = 'none'",
            ),
            (
                ["training.ema=0.999", "training.shard=full"],
                "training.ema: 0.999 is not for sharded weights; set training.shard = 'none'",
            ),
            (
                ["training.word_dropout=0.1", "model.kind=language_model"],
                "training.word_dropout: 0.1 is of source tokens, which this model has none of; set it to 0",
            ),
            (
                ["training.word_dropout=0.1", "model.copy=true"],
                "training.word_dropout: 0.1 would leave tokens that cannot be copied; with model.copy set it to 0",
            ),
            (
                ["training.loss=entmax15"],
                "training.label_smoothing: 0.1 would give every token probability, which training.loss = 'entmax15' "
                "does not; set it to 0",
            ),
            (
                ["training.loss=entmax15", "training.label_smoothing=0", "model.attention.hard=monotonic"],
                "model.attention.hard: 'monotonic' sums probabilities over alignments; it needs "
                "training.loss = 'cross_entropy'",
            ),
            (
                ["model.sources.count=2", "model.kind=language_model"],
                "model.sources.count: 2 sources need encoders; set model.kind = 'seq2seq' (it is 'language_model')",
            ),
            (
                ["model.sources.count=2", "model.bridge=copy"],
                "model.sources.count: 2 sources have as many final states; set model.bridge = 'project' or 'auto'",
            ),
            (
                ["model.sources.count=3", "model.attention.window=monotonic"],
                "model.sources.count: 3 sources have no position in common for a window; "
                "set model.sources.attention = 'flat'",
            ),
            (
                ["model.sources.count=2", "data.train={file='a.tsv', source=[1, 2, 4], target=[3]}"],
                "data.train: source names 1, 2, 4, but model.sources.count = 2; make them agree",
            ),
            (
                ["model.sources.count=2", "data.train=a.tsv", "data.valid={source='a.en', target='a.fr'}"],
                "data.valid: model.sources.count = 2 needs a table: {file = FILE, source = [1, 2], target = 3}",
            ),
            (
                ["model.tie=all", "tokenizer.joint=false"],
                "model.tie: 'all' shares one embedding of both sides; it needs tokenizer.joint = true",
            ),
            (
                ["tokenizer.kind=character", "tokenizer.target_kind=word"],
                "tokenizer.target_kind: 'word' beside tokenizer.kind = 'character' needs two vocabularies; "
                "set tokenizer.joint = false",
            ),
            (
                ["tokenizer.kind=word", "tokenizer.tags=true"],
                "tokenizer.tags: only characters know tags; set tokenizer.kind = 'character'",
            ),
            (
                ["training.metric=bleu", "training.validate_every=0"],
                "training.metric: a metric needs validations; set training.validate_every",
            ),
            (
                ["tokenizer.extend=true"],
                "tokenizer.extend: there is no tokenizer to extend; start from a run (--from RUN)",
            ),
            *(
                (
                    [*changes, "training.precision=bf16"],
                    "training.precision: 'bf16' is for Transformers; recurrent models train in fp32 or tf32",
                )
                for changes in ([], ["model.encoder.kind=transformer"], ["model.decoder.kind=transformer"])
            ),
            *CONTRADICTIONS_OF_TRANSFORMERS,
        ],
    )
    def test_refused(self, changes, message):
        assert refusal({}, *changes) == message

    @pytest.mark.parametrize(
        "changes",
        [
            ["model.encoder.hidden=17", "model.encoder.bidirectional=false"],
            ["model.encoder.reverse_source=true", "model.encoder.bidirectional=false"],
            ["model.decoder.input_feeding=true"],
            ["model.attention.score=parameter_free"],
            ["model.tie=all"],
            ["model.tie=target", "tokenizer.joint=false"],
            ["tokenizer.kind=character", "tokenizer.target_kind=word", "tokenizer.joint=false"],
            ["tokenizer.kind=word", "tokenizer.target_kind=word"],
            ["tokenizer.kind=character", "tokenizer.tags=true"],
            ["tokenizer.target_kind=character", "tokenizer.joint=false", "tokenizer.tags=true"],
            ["tokenizer.target_kind=same", "tokenizer.joint=false"],
            ["training.metric=bleu"],
            ["training.validate_every=0"],
            *NEIGHBORS_OF_TRANSFORMERS,
        ],
    )
    def test_its_neighbors_are_allowed(self, changes):
        make_recipe({}, changes)


class TestSet:
    def test_values_are_read_as_toml_or_else_as_text(self):
        recipe = make_recipe(
            {"name": "a", "data": {"train_size": 3}},
            [
                "training.steps=500",
                " model.encoder.layers = 4 ",
                "training.learning_rate=3e-4",
                "tokenizer.joint=false",
                "data.train=pairs.tsv",
                'summary="two = words"',
                "data.options.length=7",
                "data.options.kind=short",
                'data.valid={source="a.en", target="a.fr"}',
                'data.test={file="a.tsv", source=[1, 2], target=[3], tags=[2]}',
                "data.test.source=[2, 1]",
                'evaluation.metrics=["chrf"]',
            ],
        )
        assert (recipe.training.steps, recipe.model.encoder.layers) == (500, 4)
        assert recipe.training.learning_rate == 3e-4 and recipe.tokenizer.joint is False
        assert (recipe.data.train, recipe.summary, recipe.data.train_size) == ("pairs.tsv", "two = words", 3)
        assert recipe.data.options == {"length": 7, "kind": "short"}
        assert recipe.data.valid == ParallelFiles(source="a.en", target="a.fr")
        assert recipe.data.test == TableFile(file="a.tsv", source=[2, 1], target=[3], tags=[2])
        assert recipe.evaluation.metrics == ["chrf"]

    def test_a_later_change_wins(self):
        assert make_recipe({}, ["seed=2", "seed=3"]).seed == 3

    @pytest.mark.parametrize("change", ["training.steps", "", "=5", "  =5"])
    def test_without_a_name_or_a_value(self, change):
        expected = f"--set {change}: expected NAME=VALUE, for example training.steps=500"
        assert refusal({}, change) == expected

    def test_into_what_is_no_group(self):
        message = refusal({"training": {"steps": 5}}, "training.steps.more=1")
        assert message == "--set training.steps.more=1: training.steps is not a group of settings"
        message = refusal({}, "name=x", "name.of.it=1")
        assert message == "--set name.of.it=1: name is not a group of settings"


class TestFiles:
    def write(self, path, text):
        path.write_text(text, "utf-8")
        return path

    def refused(self, name, *changes):
        with pytest.raises(RecipeError) as caught:
            load_recipe(name, changes)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_named_after_its_file(self, tmp_path):
        assert load_recipe(self.write(tmp_path / "mine.toml", "seed = 4")).name == "mine"
        assert load_recipe(self.write(tmp_path / "other.toml", "name = 'x'")).name == "x"

    def test_any_file_may_be_a_recipe(self, tmp_path):
        assert load_recipe(self.write(tmp_path / "mine.txt", "seed = 4")).seed == 4

    def test_changes_apply(self, tmp_path):
        path = self.write(tmp_path / "mine.toml", "seed = 4")
        assert load_recipe(str(path), ["seed=5"]).seed == 5

    def test_mistakes_name_the_file(self, tmp_path):
        path = self.write(tmp_path / "mine.toml", "[training]\nstep = 4")
        assert self.refused(path) == f"{path}: training.step: unknown setting; did you mean 'steps'?"

    @pytest.mark.parametrize("text", ["seed = ", "[training\nsteps = 1", "seed = 1\nseed = 2", "seed 4", "x = '\n'"])
    def test_no_toml(self, tmp_path, text):
        path = self.write(tmp_path / "mine.toml", text)
        message = self.refused(path)
        assert message.startswith(f"{path}: not valid TOML: ") and "(at " in message

    def test_no_text(self, tmp_path):
        path = tmp_path / "mine.toml"
        path.write_bytes(b"name = '\xff'")
        assert self.refused(path).startswith(f"{path}: not valid TOML: ")

    def test_no_file(self, tmp_path):
        path = tmp_path / "none.toml"
        assert self.refused(path) == f"{path}: cannot be read (No such file or directory)"

    def test_a_folder(self, tmp_path):
        path = tmp_path / "folder.toml"
        path.mkdir()
        assert self.refused(path) == f"{path}: cannot be read (is a folder, expected a file)"

    def test_no_shipped_recipe(self):
        message = self.refused("gramar")
        assert message.startswith("gramar: no such recipe; ") and message.endswith(", or give a .toml file")
        if "grammar" in shipped():
            assert "did you mean 'grammar'?" in message

    def test_code_cannot_be_named(self):
        assert "unknown setting" in refusal({"model": {"class": "os.system"}})
        assert "was given" in refusal({"model": {"encoder": {"kind": "torch.nn.LSTM"}}})


@pytest.mark.parametrize("name", shipped())
def test_shipped_recipes_load(name):
    recipe = load_recipe(name)
    assert recipe.name == name and recipe.summary
    check_metrics(recipe.evaluation.metrics)
    assert recipe.training.metric in {"loss", *METRICS}
    assert make_recipe(tomllib.loads(write_toml(recipe))) == recipe


# What is written is what is read.

names = st.from_regex(r"\w[\w .+-]{0,20}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['"', "\\", '\\"', "'''", '"""', "a\nb", "\r\n", "\t", "\0", "\x7f", "\x85", "\u2028", "é", "e\u0301", "🙂", "שלום"]
)


named = texts.filter(lambda text: text and "\0" not in text)


def values_of(case):
    """What a setting may be."""
    name, annotation, bounds = case.name, case.annotation, case.bounds
    if name == "search.banned_ids":
        return st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=3), max_size=3)
    if name == "search.batch_tokens":
        return st.just("auto") | st.integers(1, 10**12)
    if name == "model.decoder.alignment_heads":
        return st.just([]) | st.just([[1, 0], [4, 3]])
    if case.family == "transformer" and name.endswith("heads"):  # numbers that may agree
        return st.sampled_from((1, 2, 4, 8))
    if case.family == "transformer" and name.endswith(".hidden"):
        return st.integers(1, 62_500).map(lambda number: 16 * number)
    choices = [mark.names for mark in case.field.metadata if isinstance(mark, Choice)]
    if choices:
        return st.sampled_from(choices[0])
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(bounds.get("ge", 0), bounds.get("le", 10**12))
    if name == "search.memory":  # a share, or bytes
        return st.floats(0.0, 1.0, exclude_min=True) | st.integers(1_000_000, 10**12)
    if annotation is float:
        low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
        return st.floats(
            low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds, allow_nan=False, allow_infinity=False
        )
    if name == "name":
        return names
    if name == "training.lora.name":
        return st.sampled_from(("medical", "a.b-2"))
    if name == "training.lora.targets":
        return st.lists(texts, min_size=1, max_size=4)
    if name == "model.stem.widths":
        return st.lists(st.integers(1, 99), min_size=1, max_size=4)
    if name == "model.stem.strides":
        return st.lists(st.lists(st.integers(1, 2), min_size=2, max_size=2), max_size=4)
    if name == "tokenizer.new_languages":
        return st.dictionaries(texts, named, max_size=4)
    if name in ("data.terms.file", "data.fuzzy.file"):
        return named
    if annotation is str:
        return texts
    if name == "data.pipeline":
        filters = st.fixed_dictionaries({"kind": st.just("length"), "max": st.integers(1, 99)})
        return st.lists(
            filters | st.fixed_dictionaries({"kind": st.just("prefix"), "text": st.just("<2de>")}), max_size=3
        )
    if name in ("tokenizer.symbols", "tokenizer.protect"):
        return st.lists(st.sampled_from(("<2de>", "x+", '"', "\\d")), max_size=3)
    if get_origin(annotation) is list:
        return st.lists(texts, max_size=4)
    if get_origin(annotation) is dict:
        one = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | texts | st.booleans()
        return st.dictionaries(texts, one, max_size=4)
    columns = st.lists(st.integers(1, 9) | named, min_size=1, max_size=3)
    table = st.fixed_dictionaries({"file": named, "source": columns, "target": columns}, optional={"tags": columns})
    one = texts | st.fixed_dictionaries({"source": named, "target": named}) | table
    return one | st.lists(one, min_size=1, max_size=3)


@st.composite
def recipes(draw):
    """Recipes of a few settings; each side's stack is of either family."""
    families = {side: draw(st.sampled_from(sorted(FAMILIES))) for side in ("model.encoder", "model.decoder")}
    own = [case for case in CASES if case.family == families.get(case.name.rpartition(".")[0], "recurrent")]
    tree = {"model": {side[6:]: {"kind": "transformer"} for side in families if families[side] == "transformer"}}
    for case in draw(st.lists(st.sampled_from(own), max_size=12, unique=True)):
        *groups, last = case.name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = draw(values_of(case))
    try:
        return make_recipe(tree)
    except RecipeError as error:
        assert "was given" not in str(error) or "is in neither source nor target" in str(error)
        assume(False)  # settings that contradict each other


@given(recipes())
def test_written_recipes_are_read_back(recipe):
    text = write_toml(recipe)
    assert make_recipe(tomllib.loads(text)) == recipe
    assert write_toml(make_recipe(tomllib.loads(text))) == text


@given(names, texts)
def test_written_files_are_read_back(tmp_path_factory, name, train):
    path = tmp_path_factory.getbasetemp() / "written.toml"
    recipe = make_recipe({"name": name, "data": {"train": train, "options": {name: train}, "folder": str(path.parent)}})
    path.write_bytes(write_toml(recipe).encode("utf-8"))
    assert load_recipe(path) == recipe


@every([case for case in CASES if case.family == "transformer"])
@given(st.data())
def test_every_setting_of_a_transformer_is_read_back(tmp_path_factory, case, data):
    path = tmp_path_factory.getbasetemp() / "transformer.toml"
    value = data.draw(values_of(case))
    try:
        recipe = make_recipe({"data": {"folder": str(path.parent)}, **case.tree(value), "name": "transformer"})
    except RecipeError:
        assume(False)
    path.write_text(write_toml(recipe), "utf-8")
    assert load_recipe(path) == recipe
    assert {one.name: one.value for one in settings_of(load_recipe(path))}[case.name] == value


@pytest.mark.parametrize("recipe", FAMILIES.values(), ids=FAMILIES)
def test_nothing_is_left_to_defaults_in_a_written_recipe(recipe):
    written = tomllib.loads(write_toml(recipe))
    for setting in settings_of(recipe):
        place = written
        for part in setting.name.split(".")[:-1]:
            place = place[part]
        assert (setting.name.rpartition(".")[2] in place) == (setting.value is not None)


# The table of settings and the schema.


def leaves(schema, definitions, prefix=""):
    """Every setting of a JSON schema, with its declaration; of a stack, those of either family."""
    for name, found in schema["properties"].items():
        forms = found.get("oneOf", [found])
        references = [one["$ref"].rpartition("/")[2] for one in forms if "$ref" in one]
        if len(references) == len(forms):
            for reference in references:
                yield from leaves(definitions[reference], definitions, f"{prefix}{name}.")
        else:
            yield prefix + name, found


def test_the_schema_has_every_setting_and_its_type():
    schema = Recipe.model_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    found = list(leaves(schema, schema["$defs"]))
    assert sorted(name for name, _ in found) == sorted(case.name for case in CASES)
    for name, one in found:
        assert one.keys() & {"type", "anyOf", "oneOf", "enum"}, name
    assert schema["additionalProperties"] is False
    assert all(group["additionalProperties"] is False for group in schema["$defs"].values())


@pytest.mark.parametrize(("place", "family"), list(enumerate(FAMILIES)))
def test_the_table_has_every_field_of_every_group(place, family):
    def group_of(annotation):
        """The settings that stand there: those of the family, where there are several."""
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if get_origin(annotation) is list:
            return None
        forms = [get_args(form)[0] for form in get_args(annotation) if hasattr(form, "__metadata__")]
        groups = [form for form in forms if isinstance(form, type) and issubclass(form, BaseModel)]
        return groups[place] if groups and len(groups) == len(get_args(annotation)) else None

    def names(group, prefix=""):
        for name, attribute in group.attributes().items():
            inner = group_of(group.model_fields[attribute].annotation)
            if inner:
                yield from names(inner, f"{prefix}{name}.")
            else:
                yield prefix + name

    assert list(names(Recipe)) == NAMES[family]


def test_the_table_has_values_and_defaults():
    table = {one.name: one for one in settings_of(make_recipe({}, ["seed=9"]))}
    assert (table["seed"].value, table["seed"].default) == (9, 1)
    assert (table["model.attention.score"].value, table["model.attention.score"].default) == ("general", "general")
    for recipe in FAMILIES.values():
        assert all(one.value == one.default for one in settings_of(recipe))


@every(CASES)
def test_every_setting_has_one_line_of_help(case):
    [setting] = [one for one in settings_of(FAMILIES[case.family]) if one.name == case.name]
    assert setting.help and "\n" not in setting.help


def test_recipes_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Recipe().seed = 2
