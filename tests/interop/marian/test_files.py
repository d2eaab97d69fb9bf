"""Files of Marian that are not what they should be: one line that names the file, and no run folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import marian_models
from fixtures.marian_models import PRE_NORM, MarianModel
from weft.errors import WeftError
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model, run_name
from weft.interop.marian.files import find_files, is_model


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    pieces = marian_models.sentencepiece_model()
    (folder / "vocab.spm").write_bytes(pieces)
    size = marian_models.piece_count(pieces)
    MarianModel((size, size)).save(folder / "model.npz")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "marian")


def refused(source: Path, out: Path, options: ImportOptions = ImportOptions()) -> str:
    with pytest.raises(WeftError) as caught:
        import_model(source, out, options)
    message = str(caught.value)
    assert "\n" not in message
    assert not out.exists() and not list(out.parent.glob(f".{out.name}*")), "nothing is left behind"
    return message.replace(str(source), "FROM")


def change(folder: Path, parameters: dict[str, np.ndarray] | None = None, **options: Any) -> None:
    """Rewrite the model with other options, or with other or fewer (None) parameters."""
    with np.load(folder / "model.npz") as file:
        arrays = {name: file[name] for name in file.files}
    model = MarianModel.__new__(MarianModel)
    model.options = {**marian_models.OPTIONS, **options}
    del arrays["special:model.yml"]
    arrays |= parameters or {}
    model.parameters = {name: array for name, array in arrays.items() if array is not None}
    model.save(folder / "model.npz")


OPTIONS = {
    "another type": ({"type": "s2s"}, "type: 's2s' is not imported; weft imports type: transformer"),
    "a recurrent decoder": (
        {"transformer-decoder-autoreg": "rnn"},
        "transformer-decoder-autoreg: 'rnn' is not imported; weft imports transformer-decoder-autoreg: self-attention",
    ),
    "feed-forward depth": ({"transformer-ffn-depth": 3}, "transformer-ffn-depth: 3 is not imported"),
    "activation": ({"transformer-ffn-activation": "tanh"}, "transformer-ffn-activation: 'tanh' is not known; weft has"),
    "norms": ({"transformer-postprocess": "da"}, "transformer-postprocess: norms at '', 'a', ''"),
    "highway": ({"transformer-postprocess": "dhn"}, "transformer-postprocess: norms at '', 'hn', ''"),
    "pre-norm of old versions": (
        {**PRE_NORM, "transformer-postprocess-top": ""},
        "transformer-postprocess-top: pre-norm without a norm on top is not imported",
    ),
    "a size": ({"dim-emb": "big"}, "dim-emb: 'big' was found, expected a whole number of at least 1"),
    "an odd size": ({"dim-emb": 13}, "dim-emb: 13 is odd"),
    "heads": ({"transformer-heads": 5}, "describes a model that weft does not have: model.encoder.heads: 5 heads"),
    "tied layers": ({"transformer-tied-layers": [1]}, "transformer-tied-layers: expected 3 numbers of layers"),
    "a tied layer": (
        {"transformer-tied-layers": [1, "first", 1]},
        "transformer-tied-layers: expected 3 numbers of layers",
    ),
    "one tied layer": ({"transformer-tied-layers": 3}, "transformer-tied-layers: expected 3 numbers of layers"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options(folder: Path, tmp_path: Path, case: str) -> None:
    changes, line = OPTIONS[case]
    change(folder, **changes)
    message = refused(folder / "model.npz", tmp_path / "run")
    assert message.startswith(f"FROM (special:model.yml): {line}")


class TestTensors:
    def test_shapes(self, folder: Path, tmp_path: Path) -> None:
        change(folder, **{"transformer-dim-ffn": 15})
        message = refused(folder / "model.npz", tmp_path / "run")
        assert message.startswith("FROM: tensor 'encoder_l1_ffn_W1' is (12, 14), but the options say (12, 15)")

    def test_missing_and_left(self, folder: Path, tmp_path: Path) -> None:
        change(folder, {"encoder_l1_self_Wq": None})  # type: ignore[dict-item]
        message = refused(folder / "model.npz", tmp_path / "run")
        assert message == "FROM: lacks tensor 'encoder_l1_self_Wq', which its options call for"
        change(folder, {"encoder_l1_self_Wq": np.zeros((12, 12), "f4"), "encoder_l3_self_Wq": np.zeros((12, 12), "f4")})
        message = refused(folder / "model.npz", tmp_path / "run")
        assert message == "FROM: tensor 'encoder_l3_self_Wq' has no place in the model of its options"

    def test_types_and_values(self, folder: Path, tmp_path: Path) -> None:
        change(folder, {"encoder_l1_self_bq": np.zeros((1, 12), "i4")})
        message = refused(folder / "model.npz", tmp_path / "run")
        assert "tensor 'encoder_l1_self_bq' is int32, expected floating-point numbers" in message
        change(folder, {"encoder_l1_self_bq": np.full((1, 12), np.nan, "f4")})
        assert "has values that are not finite" in refused(folder / "model.npz", tmp_path / "run")

    def test_pickled_objects(self, folder: Path, tmp_path: Path) -> None:
        change(folder, {"encoder_l1_self_bq": np.array([{"a": 1}], dtype=object)})
        message = refused(folder / "model.npz", tmp_path / "run")
        assert message.startswith("FROM: damaged, incomplete, or not a model of Marian (Object arrays cannot be loaded")

    @pytest.mark.parametrize("size", [0, 9, 1000, -1])
    def test_truncated(self, folder: Path, tmp_path: Path, size: int) -> None:
        path = folder / "model.npz"
        os.truncate(path, path.stat().st_size + size if size < 0 else size)
        assert refused(path, tmp_path / "run").startswith("FROM: damaged, incomplete, or not a model of Marian (")

    def test_another_archive(self, folder: Path, tmp_path: Path) -> None:
        np.savez(folder / "model.npz", a=np.zeros(3))
        message = refused(folder / "model.npz", tmp_path / "run")
        assert message == "FROM: has no special:model.yml, the options of the model; is it a model of Marian?"

    @pytest.mark.parametrize(("text", "line"), [("a: {", "not valid YAML ("), ("7", "expected names and values")])
    def test_damaged_options(self, folder: Path, tmp_path: Path, text: str, line: str) -> None:
        np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(text.encode(), np.int8)})
        assert refused(folder / "model.npz", tmp_path / "run").startswith(f"FROM (special:model.yml): {line}")


class TestFiles:
    def test_formats(self, folder: Path, tmp_path: Path) -> None:
        assert is_model(folder) and is_model(folder / "model.npz") and not is_model(tmp_path / "none.npz")
        assert not is_model(folder / "vocab.spm") and not is_model(tmp_path)
        assert run_name(str(folder / "model.npz.best-bleu.npz")) == "model.npz.best-bleu.npz"
        assert run_name(str(folder / "model.npz")) == "model"

    def test_models_of_bergamot(self, folder: Path, tmp_path: Path) -> None:
        (folder / "model.npz").rename(folder / "model.intgemm.alphas.bin")
        message = refused(folder, tmp_path / "run")
        assert message.startswith("FROM/model.intgemm.alphas.bin: not imported: a .bin of Marian is quantized")

    def test_several_models(self, folder: Path) -> None:
        for name in ("model.npz.best-perplexity.npz", "model.npz.optimizer.npz"):
            shutil.copy(folder / "model.npz", folder / name)
        assert find_files(folder, ()).model.name == "model.npz.best-perplexity.npz"
        shutil.copy(folder / "model.npz", folder / "model.npz.best-translation.npz")
        assert find_files(folder, ()).model.name == "model.npz.best-translation.npz"

    def test_models_without_an_order(self, folder: Path, tmp_path: Path) -> None:
        (folder / "model.npz").rename(folder / "a.npz")
        shutil.copy(folder / "a.npz", folder / "b.npz")
        assert refused(folder, tmp_path / "run") == "FROM: has 2 models; name one of them, such as FROM/a.npz"

    def test_no_vocabulary(self, folder: Path, tmp_path: Path) -> None:
        (folder / "vocab.spm").rename(folder / "pieces.spm")
        message = refused(folder, tmp_path / "run")
        assert message.startswith("FROM: no vocabulary found; name the one of the source")
        import_model(folder, tmp_path / "run", ImportOptions(vocabularies=(folder / "pieces.spm",)))

    @pytest.mark.parametrize(
        ("names", "chosen"),
        [
            (("vocab.src.spm", "vocab.trg.spm"), ("vocab.src.spm", "vocab.trg.spm")),
            (("a.target.vocab.yml", "b.source.vocab.yml"), ("b.source.vocab.yml", "a.target.vocab.yml")),
            (("vocab.src.txt", "vocab.src.yml", "vocab.tgt.yml"), None),
            (("tgt.vocab", "vocab.fr.spm"), ("tgt.vocab", "vocab.fr.spm")),  # in the order of their names
            (("Vocab.json", "src.spm", "vocab.md"), ("Vocab.json",)),
        ],
    )
    def test_vocabularies_by_their_names(
        self, tmp_path: Path, names: tuple[str, ...], chosen: tuple[str, ...] | None
    ) -> None:
        for name in ("model.npz", *names):
            (tmp_path / name).touch()
        if chosen is None:
            with pytest.raises(WeftError, match="3 vocabularies found, expected one or two; name the one of the sour"):
                find_files(tmp_path, ())
        else:
            assert find_files(tmp_path, ()).vocabularies == tuple(tmp_path / name for name in chosen)

    def test_a_vocabulary_that_is_missing(self, folder: Path, tmp_path: Path) -> None:
        message = refused(folder, tmp_path / "run", ImportOptions(vocabularies=(folder / "x.spm",)))
        assert message == "FROM/x.spm: no such file; name the vocabularies of the model: --vocab FILE"

    def test_vocabularies_outside_the_folder(self, folder: Path) -> None:
        (folder / "decoder.yml").write_text("vocabs: [../../etc/passwd, /etc/passwd]\n")
        assert find_files(folder, ()).vocabularies == (folder / "vocab.spm",)

    @pytest.mark.parametrize(
        ("named", "chosen"),
        [
            ("other.spm", "other.spm"),
            ("[elsewhere/other.spm, vocab.spm]", "other.spm vocab.spm"),
            ("[vocab.spm, 7]", "other.vocab.spm vocab.spm"),  # not names: by those of the files
            ("{vocab.spm: 1}", "other.vocab.spm vocab.spm"),
            ("[vocab.spm, missing.spm]", "other.vocab.spm vocab.spm"),
        ],
    )
    def test_vocabularies_that_settings_name(self, tmp_path: Path, named: str, chosen: str) -> None:
        for name in ("model.npz", "vocab.spm", "other.spm", "other.vocab.spm"):
            (tmp_path / name).touch()
        (tmp_path / "decoder.yml").write_text(f"vocabs: {named}\n")
        assert find_files(tmp_path, ()).vocabularies == tuple(tmp_path / name for name in chosen.split())

    def test_search_without_a_counterpart(self, folder: Path, tmp_path: Path) -> None:
        (folder / "decoder.yml").write_text("word-penalty: 0.5\n")
        message = refused(folder, tmp_path / "run")
        assert message.startswith(
            "FROM/decoder.yml: word-penalty: 0.5 has no counterpart in weft; import it with weft's"
        )
        import_model(folder, tmp_path / "run", ImportOptions(default_search=True))

    def test_numerics(self, folder: Path, tmp_path: Path) -> None:
        message = refused(folder, tmp_path / "run", ImportOptions(numerics="hugingface"))
        assert message == "numerics='hugingface': unknown; did you mean 'huggingface'?"
