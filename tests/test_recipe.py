"""Recipes: what is refused and in which words, and that what is written is what is read."""

import json
import math
import tomllib
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from weft.errors import RecipeError
from weft.evaluation.metrics import METRICS
from weft.recipe import (
    ParallelFiles,
    Recipe,
    TableFile,
    load_recipe,
    make_recipe,
    settings_of,
    shipped,
    write_toml,
)

NAMES = [setting.name for setting in settings_of(Recipe())]


def field_of(name):
    """The declaration of a setting."""
    group = Recipe()
    *groups, last = name.split(".")
    for part in groups:
        group = getattr(group, part)
    return type(group).model_fields[last]


def bounds_of(name):
    """``{"ge": 1}`` and the like."""
    found = {}
    for constraint in field_of(name).metadata:
        found |= {bound: getattr(constraint, bound) for bound in ("ge", "gt", "le", "lt") if hasattr(constraint, bound)}
    return found


def tree_of(name, value):
    """A recipe with one setting: nested dictionaries."""
    *groups, last = name.split(".")
    tree = {last: value}
    for group in reversed(groups):
        tree = {group: tree}
    return tree


def refusal(tree, *changes):
    """The one line with which a recipe is refused."""
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree, changes)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def numbers(*kinds):
    return [name for name in NAMES if field_of(name).annotation in kinds]


class TestUnknownSettings:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_setting_is_suggested_for_its_misspelling(self, name):
        message = refusal(tree_of(name + "x", 1))
        assert message == f"{name}x: unknown setting; did you mean {name.rpartition('.')[2]!r}?"

    @pytest.mark.parametrize("name", ["modle", "data.trian", "model.encodr", "model.attention.scor"])
    def test_it_says_the_same_of_set(self, name):
        message = refusal({}, f"{name}=1")
        assert message.startswith(f"{name}: unknown setting; did you mean '")

    def test_a_group_may_be_misspelt(self):
        assert refusal({"trainig": {"steps": 1}}) == "trainig: unknown setting; did you mean 'training'?"

    def test_without_a_near_name_all_are_listed(self):
        message = refusal({"evaluation": {"zzz": 1}})
        assert message == "evaluation.zzz: unknown setting; choose one of metrics"

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
            ({"file": 7, "source": [1], "target": [2]}, ".file: 7 was given; input should be a valid string"),
            ({"file": "a.tsv", "source": 1, "target": [2]}, ".source: 1 was given; input should be a valid list"),
            ({"file": "a.tsv", "source": [], "target": [2]}, ".source: [] was given; list should have at least 1 item"),
            (
                {"file": "a.tsv", "source": [1, 0], "target": [2]},
                ".source.1: 0 was given; input should be greater than or equal to 1",
            ),
            (
                {"file": "a.tsv", "source": [1], "target": ["form"]},
                ".target.0: 'form' was given; input should be a valid integer",
            ),
            (
                {"file": "a.tsv", "source": [1, 2], "target": [3], "tags": [2, 4]},
                ".tags: column 4 is in neither source nor target",
            ),
        ],
    )
    @pytest.mark.parametrize("split", ["train", "valid", "test"])
    def test_inside_a_table(self, split, table, message):
        assert refusal({"data": {split: table}}).startswith(f"data.{split}{message}")

    def test_a_name_with_a_line_end_still_makes_one_line(self):
        refusal({"a\nb": 1})

    def test_further_mistakes_are_counted(self):
        assert refusal({"nam": 1, "sed": 2, "sumary": 3}).endswith("did you mean 'name'? (and 2 more)")


class TestValues:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_wrong_type_is_refused(self, name):
        annotation = field_of(name).annotation
        wrong = 7 if get_origin(annotation) in (list, dict) else [7]
        message = refusal(tree_of(name, wrong))
        assert message.startswith(f"{name}: {wrong!r} was given; input should be ")

    @pytest.mark.parametrize("name", NAMES)
    def test_one_mistake_counts_as_one(self, name):
        annotation = field_of(name).annotation
        assert "more)" not in refusal(tree_of(name, 7 if get_origin(annotation) in (list, dict) else [7]))

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
            ("model.encoder.kind=gruu", "model.encoder.kind: 'gruu' was given; input should be 'rnn', 'gru' or 'lstm'"),
            ("model=3", "model: 3 was given; input should be a valid dictionary or instance of ModelSettings"),
            ("data.options.length=[1]", "data.options.length: [1] was given; "),
        ],
    )
    def test_what_was_given_and_what_is_allowed(self, change, message):
        assert refusal({}, change).startswith(message)

    @pytest.mark.parametrize("name", [name for name in NAMES if bounds_of(name)])
    def test_out_of_range(self, name):
        for bound, limit in bounds_of(name).items():
            kind = field_of(name).annotation
            step = 1 if kind is int else 0.5
            value = kind({"ge": limit - step, "gt": limit, "le": limit + step, "lt": limit}[bound])
            words = {
                "ge": "greater than or equal to",
                "gt": "greater than",
                "le": "less than or equal to",
                "lt": "less than",
            }
            expected = f"{name}: {value!r} was given; input should be {words[bound]} {limit:g}"
            assert refusal(tree_of(name, value)) == expected

    @pytest.mark.parametrize("name", [name for name in NAMES if bounds_of(name)])
    def test_the_edge_itself_is_allowed(self, name):
        for bound, limit in bounds_of(name).items():
            if bound in ("ge", "le") and name != "training.validate_every":
                make_recipe(tree_of(name, field_of(name).annotation(limit)), ["model.encoder.bidirectional=false"])

    @pytest.mark.parametrize("name", numbers(float))
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_numbers_are_finite(self, name, value):
        assert refusal(tree_of(name, value)).startswith(f"{name}: {value} was given; ")

    @pytest.mark.parametrize("name", numbers(float))
    def test_a_whole_number_may_stand_for_a_real_one(self, name):
        lowest, highest = bounds_of(name).get("gt", -1), bounds_of(name).get("lt", 2)
        whole = next((value for value in (0, 1) if lowest < value < highest), None)
        if whole is not None:
            recipe = make_recipe(tree_of(name, whole))
            assert {one.name: one.value for one in settings_of(recipe)}[name] == whole


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
                ["model.tie=all", "tokenizer.joint=false"],
                "model.tie: 'all' shares one table of both sides; it needs tokenizer.joint = true",
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
        ],
    )
    def test_its_neighbours_are_allowed(self, changes):
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
        assert self.refused(path) == f"{path}: cannot be read (Is a directory)"

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
    assert set(recipe.evaluation.metrics) <= set(METRICS)
    assert recipe.training.metric in {"loss", *METRICS}
    assert make_recipe(tomllib.loads(write_toml(recipe))) == recipe


# What is written is what is read.

names = st.from_regex(r"\w[\w .+-]{0,20}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['"', "\\", '\\"', "'''", '"""', "a\nb", "\r\n", "\t", "\0", "\x7f", "\x85", "\u2028", "é", "e\u0301", "🙂", "שלום"]
)


def values_of(name):
    """What a setting may be."""
    annotation, bounds = field_of(name).annotation, bounds_of(name)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(bounds.get("ge", 0), 10**12)
    if annotation is float:
        low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
        return st.floats(
            low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds, allow_nan=False, allow_infinity=False
        )
    if name == "name":
        return names
    if annotation is str:
        return texts
    if get_origin(annotation) is list:
        return st.lists(texts, max_size=4)
    if get_origin(annotation) is dict:
        one = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | texts | st.booleans()
        return st.dictionaries(texts, one, max_size=4)
    columns = st.lists(st.integers(1, 9), min_size=1, max_size=3)
    table = st.fixed_dictionaries({"file": texts, "source": columns, "target": columns}, optional={"tags": columns})
    return texts | st.fixed_dictionaries({"source": texts, "target": texts}) | table


@st.composite
def recipes(draw):
    tree = {}
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=12, unique=True)):
        *groups, last = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = draw(values_of(name))
    try:
        return make_recipe(tree)
    except RecipeError as error:
        assert "was given" not in str(error)
        assume(False)  # settings that contradict each other


@given(recipes())
def test_written_recipes_are_read_back(recipe):
    text = write_toml(recipe)
    assert make_recipe(tomllib.loads(text)) == recipe
    assert write_toml(make_recipe(tomllib.loads(text))) == text


@given(names, texts)
def test_written_files_are_read_back(tmp_path_factory, name, train):
    path = tmp_path_factory.getbasetemp() / "written.toml"
    recipe = make_recipe({"name": name, "data": {"train": train, "options": {name: train}}})
    path.write_bytes(write_toml(recipe).encode("utf-8"))
    assert load_recipe(path) == recipe


def test_nothing_is_left_to_defaults_in_a_written_recipe():
    written = tomllib.loads(write_toml(Recipe()))
    for setting in settings_of(Recipe()):
        place = written
        for part in setting.name.split(".")[:-1]:
            place = place[part]
        assert (setting.name.rpartition(".")[2] in place) == (setting.value is not None)


# The table of settings and the schema.


def leaves(schema, definitions, prefix=""):
    """Every setting of a JSON schema, with its declaration."""
    for name, found in schema["properties"].items():
        reference = found.get("$ref", "").rpartition("/")[2]
        if reference:
            yield from leaves(definitions[reference], definitions, f"{prefix}{name}.")
        else:
            yield prefix + name, found


def test_the_schema_has_every_setting_and_its_type():
    schema = Recipe.model_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    found = dict(leaves(schema, schema["$defs"]))
    assert sorted(found) == sorted(NAMES)
    for name, one in found.items():
        assert one.keys() & {"type", "anyOf", "oneOf", "enum"}, name
    assert schema["additionalProperties"] is False
    assert all(group["additionalProperties"] is False for group in schema["$defs"].values())


def test_the_table_has_every_field_of_every_group():
    def names(group, prefix=""):
        for name, field in group.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from names(kind, f"{prefix}{name}.")
            else:
                yield prefix + name

    assert list(names(Recipe)) == NAMES


def test_the_table_has_values_and_defaults():
    table = {one.name: one for one in settings_of(make_recipe({}, ["seed=9"]))}
    assert (table["seed"].value, table["seed"].default) == (9, 1)
    assert (table["model.attention.score"].value, table["model.attention.score"].default) == ("general", "general")
    assert all(one.value == one.default for one in settings_of(Recipe()))


@pytest.mark.parametrize("setting", list(settings_of(Recipe())), ids=NAMES)
def test_every_setting_has_one_line_of_help(setting):
    assert setting.help and "\n" not in setting.help


def test_recipes_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Recipe().seed = 2
