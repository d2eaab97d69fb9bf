"""Knowledge distillation: a student learns from the outputs or the distributions of teachers; and back-translation.

distill.py             `weft.distill`: the outline, from teachers to a trained student
method.py              what is learned from a teacher: sequences, distributions, or both, beside the references
teachers.py            runs, ensembles and imported models as teachers
students.py            the recipe of a student: by name, or of a file
corpora.py             the training data of a student: the teacher's outputs, the references, monolingual text
targets.py             outputs of a model, written so that an interrupted command continues
back_translation.py    `weft.back_translate`: sources for monolingual targets, by a model of the reverse direction
"""
