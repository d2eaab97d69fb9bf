"""The workload of every toolkit: the sizes of the two models, and the text."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SEED = 1
FOREVER = 10**6  # steps

# The recurrent model: one bidirectional LSTM, one LSTM with input feeding.
EMBEDDING = 256
ENCODER = 256  # of each direction
DECODER = 512

# The Transformer.
WIDTH = 256
HEADS = 4
FEED_FORWARD = 1024


@dataclass(frozen=True)
class Workload:
    """One model on one text, in terms every toolkit can be given."""

    model: str  # rnn or transformer
    data: Path  # folder with {train,val}.bpe.{en,de}
    layers: int  # of the encoder, and again of the decoder
    dropout: float
    label_smoothing: float
    clip: float  # largest gradient norm
    learning_rate: float
    attention: str | None = None  # rnn: general or additive
    tokens: int = 2048  # of a batch, as the toolkit counts them
    workers: int = 0  # processes that prepare batches beside the trainer

    def text(self, split: str, language: str) -> Path:
        return self.data / f"{split}.bpe.{language}"


DEFAULTS = {
    "rnn": {"layers": 1, "dropout": 0.2, "label_smoothing": 0.0, "clip": 5.0, "learning_rate": 1e-3},
    "transformer": {"layers": 3, "dropout": 0.1, "label_smoothing": 0.1, "clip": 1.0, "learning_rate": 3e-4},
}


def joint_vocabulary(workload: Workload) -> list[tuple[str, int]]:
    """The pieces of both languages and how often they occur, frequent ones first."""
    counts: Counter = Counter()
    for language in ("en", "de"):
        with workload.text("train", language).open(encoding="utf-8") as lines:
            for line in lines:
                counts.update(line.split())
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
