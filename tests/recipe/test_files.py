"""Recipe files: what extends what, and what paths are relative to."""

import pytest

from weft.errors import RecipeError
from weft.recipe import load_recipe
from weft.recipe.files import BUILT_IN_CORPORA, MAX_BYTES, MAX_EXTENDS


@pytest.fixture
def write(tmp_path):
    """Writes a file below a temporary folder."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
        return path

    return write


def refusal(path, *changes):
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestPaths:
    def test_are_relative_to_the_recipe(self, write, tmp_path):
        data = load_recipe(write("sub/mine.toml", "[data]\ntrain = 'a.tsv'\nprepared = 'p'")).data
        assert (data.folder, data.train, data.prepared) == (str(tmp_path / "sub"), "a.tsv", "p")

    def test_or_to_its_data_folder(self, write, tmp_path):
        path = write("sub/mine.toml", "[data]\nfolder = 'corpora'\ntrain = 'a.tsv'")
        assert load_recipe(path).data.folder == str(tmp_path / "sub" / "corpora")
        assert load_recipe(write("x.toml", "[data]\nfolder = '/corpora'")).data.folder == "/corpora"

    def test_of_changes_are_relative_to_the_current_folder(self, write, tmp_path, monkeypatch):
        monkeypatch.chdir(write("here/x", "").parent)
        path = write("sub/mine.toml", "[data]\ntrain = 'a.tsv'\nfolder = 'corpora'")
        here = str(tmp_path / "here")
        changes = ["data.valid=v.tsv", "data.test={source='a', target='b'}", "data.prepared=p", "tokenizer.file=t.json"]
        recipe = load_recipe(path, changes)
        assert (recipe.data.train, recipe.data.valid, recipe.data.prepared) == ("a.tsv", f"{here}/v.tsv", f"{here}/p")
        assert (recipe.data.test.source, recipe.data.test.target) == ([f"{here}/a"], [f"{here}/b"])
        assert recipe.tokenizer.file == f"{here}/t.json"
        table = load_recipe(path, ["data.train=[{file=['a.tsv', '/b.tsv'], source=1, target='x.y'}, 'grammar', '-']"])
        first, *rest = table.data.train
        assert (first.file, first.source, first.target) == ([f"{here}/a.tsv", "/b.tsv"], [1], ["x.y"])
        assert rest == ["grammar", "-"]

    @pytest.mark.parametrize("name", ["x/q", "x/q.txt", "q", "q.txt", "./q", "../q", "./copy", "coppy"])
    def test_a_name_is_a_path_with_or_without_a_suffix(self, write, tmp_path, monkeypatch, name):
        monkeypatch.chdir(write("here/x/q", "").parents[1])
        path = write("sub/mine.toml", "[data]\ntrain = 'a.tsv'")
        expected = str(tmp_path / "here" / name)
        assert load_recipe(path, [f"data.train={name}"]).data.train == expected
        assert load_recipe(path, [f"data.train={{name='{name}', weight=2.0}}"]).data.train.name == expected
        extending = write("other/mine.toml", "extends = '../sub/base.toml'\n[data]\nvalid = 'v'")
        write("sub/base.toml", f"[data]\ntrain = '{name}'")
        assert load_recipe(extending).data.train == str(tmp_path / "sub" / name)

    @pytest.mark.parametrize("name", BUILT_IN_CORPORA)
    def test_of_a_built_in_corpus_is_none(self, write, tmp_path, monkeypatch, name):
        monkeypatch.chdir(write(f"here/{name}", "").parent)
        path = write("sub/mine.toml", "[data]\ntrain = 'a.tsv'")
        assert load_recipe(path, [f"data.train={name}"]).data.train == name
        assert load_recipe(path, [f"data.train={{name='{name}'}}"]).data.train.name == name

    @pytest.mark.parametrize(
        ("name", "is_path"), [("wmt16", 0), ("org/name", 0), ("org/name-v1.0", 0), ("./saved", 1), ("../saved.v1", 1)]
    )
    def test_of_a_data_set(self, write, tmp_path, monkeypatch, name, is_path):
        monkeypatch.chdir(write("here/x", "").parent)
        path = write("sub/mine.toml", "[data]\ntrain = 'a.tsv'")
        data = load_recipe(path, [f"data.train={{dataset='{name}', source='s', target='t'}}"]).data
        assert data.train.dataset == (str(tmp_path / "here" / name) if is_path else name)

    def test_of_changes_follow_a_data_folder_that_is_a_change_too(self, write):
        data = load_recipe(write("sub/mine.toml", ""), ["data.folder=x", "data.train=a.tsv"]).data
        assert (data.folder, data.train) == ("x", "a.tsv")

    def test_in_the_current_folder_they_stay_as_they_are(self, write, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert load_recipe(write("mine.toml", ""), ["data.train=a.tsv"]).data.train == "a.tsv"
        assert load_recipe("multi30k-rnn", ["data.valid=a.tsv"]).data.valid == "a.tsv"


class TestExtends:
    def test_a_shipped_recipe(self, write, tmp_path):
        recipe = load_recipe(write("mine.toml", "extends = 'g2p'\n[training]\nsteps = 7"))
        shipped = load_recipe("g2p")
        assert recipe.name == "mine" and recipe.training.steps == 7
        assert recipe.model == shipped.model and recipe.data.train == shipped.data.train
        assert recipe.training == shipped.training.model_copy(update={"steps": 7})
        assert recipe.data.folder == str(tmp_path / shipped.data.folder)

    def test_own_paths_do_not_refer_to_the_folder_of_the_other(self, write, tmp_path):
        recipe = load_recipe(write("mine.toml", "extends = 'g2p'\n[data]\ntrain = 'mine.tsv'"))
        folder = load_recipe("g2p").data.folder
        assert (recipe.data.folder, recipe.data.train) == (str(tmp_path), "mine.tsv")
        assert recipe.data.valid == f"{folder}/valid.tsv"

    def test_a_new_data_folder_has_the_files_of_the_other(self, write, tmp_path):
        data = load_recipe(write("mine.toml", "extends = 'g2p'\n[data]\nfolder = 'fre'")).data
        assert (data.folder, data.train) == (str(tmp_path / "fre"), "train.tsv")

    def test_a_file_whose_paths_stay_its_own(self, write, tmp_path):
        write("base/base.toml", "[data]\ntrain = 'a.tsv'\nvalid = {source = 'b', target = 'c'}")
        data = load_recipe(write("mine.toml", "extends = 'base/base.toml'\n[data]\ntest = 't.tsv'")).data
        assert (data.train, data.test, data.folder) == (f"{tmp_path}/base/a.tsv", "t.tsv", str(tmp_path))
        assert data.valid.source == [f"{tmp_path}/base/b"]

    def test_a_corpus_is_replaced_whole_and_so_is_a_stack_of_another_kind(self, write):
        base = (
            "[data]\ntrain = {file = 'a.tsv', source = 1, target = 2}\n[model.encoder]\nkind = 'transformer'\nheads = 4"
        )
        write("base.toml", base)
        more = "\n[data]\ntrain = {source = 'a', target = 'b'}\n[model.encoder]\nkind = 'gru'"
        recipe = load_recipe(write("mine.toml", f"extends = 'base.toml'{more}"))
        assert recipe.model.encoder.kind == "gru" and recipe.data.train.source == ["a"]

    def test_none_unsets(self, write):
        write("base.toml", "[data]\ntrain = 'a.tsv'\nvalid = 'b.tsv'\n[search]\nseed = 4")
        path = write("mine.toml", "extends = 'base.toml'\n[data]\nvalid = 'none'")
        assert load_recipe(path).data.valid is None
        changed = load_recipe(path, ["data.valid=none", "search.seed=none", "tokenizer.normalize=none"])
        assert changed.data.valid is None and changed.search.seed is None and changed.tokenizer.normalize == "none"

    def test_cycles_and_long_chains_are_refused(self, write):
        path = write("a.toml", "extends = 'b.toml'")
        write("b.toml", "extends = 'a.toml'")
        assert refusal(path) == f"{path}: extends: the recipe extends itself"
        for number in range(20):
            write(f"r{number}.toml", f"extends = 'r{number + 1}.toml'")
        write("r20.toml", "")
        assert refusal(path.with_name("r0.toml")).endswith(f"more than {MAX_EXTENDS} recipes extend each other")

    def test_no_such_recipe(self, write):
        path = write("a.toml", "extends = 'gramar'")
        assert refusal(path).startswith(f"{path}: extends: gramar: no such recipe; did you mean 'grammar'?")
        assert refusal(write("b.toml", "extends = 3")).endswith(
            "extends: 3 was given; expected the name of a recipe, or a file"
        )


class TestContent:
    def test_a_byte_order_mark(self, write):
        assert load_recipe(write("mine.toml", "\ufeffseed = 4")).seed == 4

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("x = " + "[" * 5000, "not valid TOML: it is nested too deeply"),
            ("x = " + "{a=" * 5000, "not valid TOML: it is nested too deeply"),
            ("seed = " + "9" * 5000, "not valid TOML: a number has too many digits"),
            (b"#" * (MAX_BYTES + 1), "larger than 1,048,576 bytes"),
            (b"a = '\0'", "not valid TOML: "),
            ("a = '\\ud800'\nb = \"\\ud800\"", "not valid TOML: "),
            ("[a]\n[a]", "not valid TOML: "),
        ],
        ids=["lists", "tables", "digits", "size", "NUL", "surrogate", "twice"],
    )
    def test_no_traceback(self, write, content, message):
        assert f": {message}" in refusal(write("mine.toml", content))

    def test_names_that_no_file_can_have(self):
        assert ": no such recipe; " in refusal("x" * 5000)
        assert ": no such recipe; " in refusal("a\0b")

    def test_changes(self):
        assert refusal("grammar", "seed=" + "9" * 5000).startswith("seed: '99999")
        assert refusal("grammar", "a." * 3000 + "b=1").endswith("no name has more than 8 parts")
        assert refusal("grammar", "seed=" + "[" * 5000).startswith("--set seed: the value is nested too deeply")
        assert refusal("grammar", "data.train=\udcff").endswith("has a lone surrogate, which is not valid text")
        assert len(refusal("grammar", "seed=" + "x" * 5000)) < 200

    def test_validation_pairs_without_training_pairs(self, write):
        path = write("mine.toml", "[data]\nvalid = 'v.tsv'")
        message = "data.train: is not set, but data.valid is; name the training pairs too"
        assert refusal(path) == f"{path}: {message}"
        assert load_recipe(path, ["data.train=a.tsv"]).data.valid == "v.tsv"
        assert load_recipe(path, ["data.valid=none"]).data.train == "grammar"
