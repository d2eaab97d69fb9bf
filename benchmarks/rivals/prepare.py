"""Make the text every toolkit in the comparison trains on: Moses tokens, then one joint BPE of 8,000 merges.

    python prepare.py $WEFT_DATA/multi30k/raw $RIVALS/data

Needs sacremoses and subword-nmt. Writes {train,val}.bpe.{en,de} and codes.bpe; nothing else reads the raw text.
"""

import argparse
from pathlib import Path

from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

LANGUAGES = ("en", "de")


def tokens(path: Path, language: str) -> list[str]:
    tokenize = MosesTokenizer(lang=language).tokenize
    with path.open(encoding="utf-8") as lines:
        return [tokenize(line.strip(), return_str=True, escape=False) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path, help="folder with train.en, train.de, val.en, val.de")
    parser.add_argument("out", type=Path)
    parser.add_argument("--merges", type=int, default=8000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    text = {(s, g): tokens(args.raw / f"{s}.{g}", g) for s in ("train", "val") for g in LANGUAGES}
    codes = args.out / "codes.bpe"
    with codes.open("w", encoding="utf-8") as out:
        learn_bpe([line + "\n" for g in LANGUAGES for line in text["train", g]], out, args.merges)
    with codes.open(encoding="utf-8") as lines:
        bpe = BPE(lines)
    types: set[str] = set()
    for (split, language), lines in text.items():
        pieces = [bpe.process_line(line) for line in lines]
        (args.out / f"{split}.bpe.{language}").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        counts = [line.split() for line in pieces]
        if split == "train":
            types.update(piece for line in counts for piece in line)
        print(f"{split}.{language}: {len(lines)} lines, mean {sum(map(len, counts)) / len(counts):.2f} tokens")
    print(f"{len(types)} types in both languages together")


if __name__ == "__main__":
    main()
