"""The tokenizers of a recipe: learned from all of a corpus or a sample of it, or given."""

import pytest

from fixtures.small_corpora import recipe_of, write_tsv
from weft.data.pairs import Pair
from weft.data.preparation import learn_tokenizers, prepare, read_corpus
from weft.errors import VocabularyError
from weft.recipe import make_recipe


class TestLearningATokenizer:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", [(f"s{number}", f"t{number}") for number in range(200)])
        return tmp_path

    def known(self, recipe):
        tokenizer = prepare(recipe).tokenizers.source
        return {
            text
            for text in (f"{side}{number}" for side in "st" for number in range(200))
            if 0 not in tokenizer.encode(text)
        }

    def test_a_small_corpus_is_all_learned_from(self, folder):
        recipe = recipe_of("pairs.tsv", folder)
        assert len(self.known(recipe)) == 400
        size = sum(len(pair.source) + len(pair.target) for pair in read_corpus(recipe, "train"))
        assert len(self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": size}))) == 400
        assert len(self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": size - 1}))) < 400

    def test_of_a_large_one_a_sample_by_the_seed(self, folder):
        found = [self.known(recipe_of("pairs.tsv", folder, tokenizer={"sample": 400}, seed=seed)) for seed in (1, 1, 2)]
        assert found[0] == found[1] != found[2]
        assert 50 < len(found[0]) < 120
        numbers = sorted(int(text[1:]) for text in found[0])
        assert numbers[0] < 50 and numbers[-1] > 150, "from all over the file"

    def test_functions_never_meet_blank_pairs(self, tmp_path):
        """Neither while a tokenizer is learned nor later: they are dropped before."""
        (tmp_path / "pairs.tsv").write_text("a\tx\n\ty\nb\t \n", "utf-8")
        met = []
        prepare(recipe_of("pairs.tsv", tmp_path), transforms=[lambda pair: met.append(pair) or pair])
        assert {(pair.source, pair.target) for pair in met} == {("a", "x")}

    def test_protected_patterns_are_those_of_the_tokenizers(self, folder):
        """Not Python's: letters by their kind can be asked for. A wrong one is refused before anything is read."""
        recipe = recipe_of("pairs.tsv", folder, tokenizer={"protect": [r"\p{Ll}+"]})
        assert prepare(recipe).tokenizers.source.tokens(prepare(recipe).tokenizers.source.encode("s7"))[0] == "s"
        wrong = recipe_of("none-*.tsv", folder, tokenizer={"protect": ["("]})
        with pytest.raises(VocabularyError, match=r"^protect '\(': not a regular expression: [^\n]+$"):
            prepare(wrong)

    def test_given_files_are_taken(self, folder):
        first = prepare(recipe_of("pairs.tsv", folder)).tokenizers
        first.save(folder)
        recipe = recipe_of("copy", folder, tokenizer={"file": "tokenizer.json"}, train_size=3)
        assert prepare(recipe).tokenizers.source.size == first.source.size


PHONES = [Pair("aft", "æ f t"), Pair("fat", "f æ t")]


def learned(*changes):
    return learn_tokenizers(make_recipe({"tokenizer": {"kind": "character"}}, changes), PHONES)


def test_each_side_may_have_its_own_unit():
    found = learned("tokenizer.target_kind=word", "tokenizer.joint=false")
    assert (found.source.kind, found.target.kind, found.joint) == ("character", "word", False)
    assert found.source.tokens(found.source.encode("taf")) == ["t", "a", "f"]
    assert found.target.tokens(found.target.encode("t æ f")) == ["t", "æ", "f"]
    assert found.target.decode(found.target.encode("t æ f")) == "t æ f"


@pytest.mark.parametrize("target_kind", ["same", "character"])
@pytest.mark.parametrize("joint", ["true", "false"])
def test_one_unit_for_both_sides(target_kind, joint):
    found = learned(f"tokenizer.target_kind={target_kind}", f"tokenizer.joint={joint}")
    assert found.source.kind == found.target.kind == "character" and found.joint == (joint == "true")


def test_the_unit_of_a_language_model_is_the_targets():
    changes = ["tokenizer.target_kind=word", "tokenizer.joint=false"]
    assert learned(*changes, "model.kind=language_model").source.kind == "word"
