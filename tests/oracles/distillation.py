"""Word-level distillation by its equation, with scalars: Kim & Rush 2016, 3.1."""

from __future__ import annotations

import math
from collections.abc import Sequence


def softmax(logits: Sequence[float]) -> list[float]:
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def loss(
    student: Sequence[Sequence[float]],
    teacher: Sequence[Sequence[float]],
    targets: Sequence[int],
    *,
    weight: float,
    smoothing: float,
) -> float:
    """Σ_t (1 − λ) [−(1 − ε) log p(y_t) − ε/V Σ_v log p(v)] − λ Σ_v q(v) log p(v), from the logits of both."""
    total = 0.0
    for student_logits, teacher_logits, target in zip(student, teacher, targets, strict=True):
        p, q = softmax(student_logits), softmax(teacher_logits)
        reference = -(1 - smoothing) * math.log(p[target])
        for probability in p:
            reference -= smoothing / len(p) * math.log(probability)
        against_teacher = 0.0
        for v in range(len(p)):
            against_teacher -= q[v] * math.log(p[v])
        total += (1 - weight) * reference + weight * against_teacher
    return total
