"""Teachers: run folders, imported ones included; several are an ensemble (`weft.models.ensemble`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import RecipeError
from weft.files import save_bytes
from weft.recipe import Recipe, TokenizerSettings, load_recipe
from weft.runs.layout import RunFolder

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.text.tokenizer import Tokenizers
    from weft.translation.translator import Translator


class Teachers(NamedTuple):
    """The runs that a student learns from; its tokenizers and its pairs are by default those of the first."""

    folders: tuple[Path, ...]
    recipe: Recipe
    """The recipe of the first run."""
    device: str = "auto"

    @classmethod
    def find(cls, given: Path | str | Sequence[Path | str], device: str = "auto") -> Teachers:
        """The teachers in these run folders, which are checked without importing torch."""
        folders = tuple(Path(path) for path in ([given] if isinstance(given, str | Path) else given))
        if not folders:
            raise RecipeError("no run was given; expected one or more run folders")
        recipes = [load_recipe(RunFolder(folder).check().recipe) for folder in folders]
        for folder, recipe in zip(folders, recipes, strict=True):
            if recipe.source_role != "text":
                raise RecipeError(
                    f"{folder}: is a language model, which has no sources to translate; give a model that has"
                )
        return cls(folders, recipes[0], device)

    def __str__(self) -> str:
        return " + ".join(map(str, self.folders))

    def identity(self) -> list[str]:
        """Hashes of their weights and settings."""
        return [RunFolder(folder).content_hash() for folder in self.folders]

    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the first run, which all of them share."""
        from weft.text.tokenizer import load_tokenizers

        return load_tokenizers(RunFolder(self.folders[0]).tokenizer_paths())

    def save_tokenizers(self, settings: TokenizerSettings, folder: Path) -> TokenizerSettings:
        """[tokenizer] of a student with a copy of the tokenizers in a folder, so that its recipe alone names them.

        Two tokenizers of one vocabulary, as imported models may have, cannot be named.
        """
        paths = RunFolder(self.folders[0]).tokenizer_paths()
        if (len(paths) == 1) != settings.joint:
            return settings
        copies = [folder / path.name for path in paths]
        for path, copy in zip(paths, copies, strict=True):
            save_bytes(copy, path.read_bytes())
        files = dict(zip(("file", "target_file"), [str(copy.resolve()) for copy in copies], strict=False))
        return settings.model_copy(update=files)

    def translator(self, **options: Any) -> Translator:
        """The teachers as a translator."""
        from weft.translation.load import load

        return load(*self.folders, device=self.device, **options)

    def model(self) -> Model:
        """The teachers' model for word-level losses, in single precision, on the CPU."""
        from weft.translation.load import load

        return load(*self.folders, device="cpu", precision="fp32", engine="torch").model
