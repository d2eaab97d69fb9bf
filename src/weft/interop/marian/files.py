"""Finding the model of a folder, the settings of its decoder, and its vocabularies.

A model is named itself, or is the only `.npz` of a folder; of several, `model.npz`, or that with the best score of
validation by the translations (`.best-translation.npz`), BLEU, chrF or perplexity.

decoder.yml as search settings.

beam-size       1: search.kind = "greedy"; more: "beam" and search.size
normalize       search.length_penalty; the end token counts in both
max-length-factor, allow-unk   search.max_ratio and max_extra = 0; the unknown token is banned unless it is allowed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import Configuration
from weft.interop.yaml_files import read_yaml
from weft.text.specials import BEGIN, UNKNOWN

PREFERRED = ("best-translation", "best-bleu-detok", "best-bleu", "best-chrf", "best-perplexity", "best-ce-mean-words")
"""Checkpoints of a training, the most useful first."""
OTHER_FORMAT = ".bin"
VOCABULARY_SUFFIXES = (".spm", ".yml", ".yaml", ".json", ".txt", ".vocab")


class MarianFiles(NamedTuple):
    """The files of a model."""

    model: Path
    decoder: Path | None
    """Settings of the decoder: decoder.yml or model.npz.decoder.yml."""
    settings: dict[str, Any]
    """The content of those files."""
    vocabularies: tuple[Path, ...]
    """Vocabularies of source and target, or one for both."""
    guided_alignment: bool = False
    """Whether the settings of its training say that it was trained to align words."""


def is_model(path: Path) -> bool:
    """Whether a path is a model of Marian, or a folder with one."""
    if path.is_dir():
        return not (path / "config.json").exists() and any(_models(path))
    return path.suffix in (".npz", OTHER_FORMAT) and path.is_file()


def _models(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".npz", OTHER_FORMAT))


def find_files(path: Path, vocabularies: Sequence[Path]) -> MarianFiles:
    """The files of a model; ``vocabularies``: files named by the user; if empty, from the settings or by file name."""
    model = _choose(path) if path.is_dir() else path
    if model.suffix == OTHER_FORMAT:
        raise CheckpointError(
            f"{model}: not imported: a .bin of Marian is quantized or packed for one kind of processor, and the "
            "decoders of Bergamot and Firefox are recurrent (SSRU); import the .npz that it was made of"
        )
    folder = model.parent
    names = (f"{model.name}.decoder.yml", "decoder.yml", f"{model.name}.yml", "config.yml")
    files = [folder / name for name in names if (folder / name).is_file()]
    settings = [read_yaml(file) for file in files]
    decoder = next((file for file in files if "decoder" in file.name), None)
    decoding = settings[files.index(decoder)] if decoder is not None else {}
    named = next((content["vocabs"] for content in settings if content.get("vocabs")), None)
    chosen = tuple(vocabularies) or _named(folder, named) or _guessed(folder)
    for file in chosen:
        if not file.is_file():
            raise CheckpointError(f"{file}: no such file; name the vocabularies of the model: --vocab FILE")
    if not 1 <= len(chosen) <= 2:
        problem = "no vocabulary found" if not chosen else f"{len(chosen)} vocabularies found, expected one or two"
        raise CheckpointError(f"{folder}: {problem}; name the one of the source, then that of the target: --vocab FILE")
    guided = any(content.get("guided-alignment") not in (None, "none") for content in settings)
    return MarianFiles(model, decoder, decoding, chosen, guided)


def _choose(folder: Path) -> Path:
    models = _models(folder)
    whole = [path for path in models if path.suffix == ".npz" and not path.name.endswith(".optimizer.npz")] or models
    if len(whole) == 1:
        return whole[0]
    for name in PREFERRED:
        matching = [path for path in whole if path.name.endswith(f".{name}.npz")]
        if len(matching) == 1:
            return matching[0]
    if folder / "model.npz" in whole:
        return folder / "model.npz"
    raise CheckpointError(f"{folder}: has {len(whole)} models; name one of them, such as {whole[0]}")


def _named(folder: Path, names: Any) -> tuple[Path, ...]:
    """The vocabularies that settings name, in the folder of the model if they are no longer where they were."""
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    beside = [folder / Path(name).name for name in names]  # never outside the folder
    return tuple(beside) if all(path.is_file() for path in beside) else ()


def _guessed(folder: Path) -> tuple[Path, ...]:
    """Vocabularies by their names: *vocab*, with src and trg or the like where there are two."""
    files = sorted(
        path for path in folder.iterdir() if path.suffix in VOCABULARY_SUFFIXES and "vocab" in path.name.lower()
    )
    if len(files) == 1:
        return tuple(files)
    sides = [
        [path for path in files if any(part in names for part in path.name.lower().split("."))]
        for names in (("src", "source"), ("trg", "tgt", "target"))
    ]
    return (sides[0][0], sides[1][0]) if all(len(side) == 1 for side in sides) else tuple(files)


BEAM_SIZE, MAX_LENGTH_FACTOR = 12, 3.0
"""Marian's own defaults."""
HINT = "import it with weft's own search settings: --default-search"


def search_settings(config: Configuration) -> dict[str, Any]:
    """[search] of a run."""
    if config.number("word-penalty", 0.0):
        raise config.error("word-penalty", f"{config.values['word-penalty']!r} has no counterpart in weft; {HINT}")
    size = config.whole("beam-size", BEAM_SIZE)
    settings: dict[str, Any] = {"kind": "greedy"} if size == 1 else {"kind": "beam", "size": size}
    normalize = config.values.get("normalize", 0.0)
    settings["length_penalty"] = float(normalize) if isinstance(normalize, bool) else config.number("normalize", 0.0)
    settings |= {"max_ratio": config.number("max-length-factor", MAX_LENGTH_FACTOR), "max_extra": 0, "no_loops": False}
    banned = [[BEGIN]] if config.flag("allow-unk", False) else [[UNKNOWN], [BEGIN]]
    return {**settings, "banned_ids": banned}
