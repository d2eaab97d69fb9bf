"""Diagrams of steps: attention, masks, training and writing, merges, batches; for tools/diagrams.py."""

from __future__ import annotations

from drawing import Box, Diagram


def attention() -> Diagram:
    """One step of a decoder with attention."""
    diagram = Diagram(720, 330, "One step of attention: scores, weights, context")
    words = ("he", "hit", "me", "with")
    query = diagram.box(620, 255, "sₜ", width=60, kind="main")
    total = diagram.box(250, 45, "context  Σ α h", width=150, kind="main")
    for index, word in enumerate(words):
        x = 70 + 120 * index
        state = diagram.box(x, 255, f"h{'₁₂₃₄'[index]}", width=60)
        score = diagram.box(x, 180, f"sₜ · h{'₁₂₃₄'[index]}", width=84)
        weight = diagram.box(x, 110, f"α{'₁₂₃₄'[index]}", width=50)
        diagram.text(x, 315, word)
        diagram.arrow((x, 298), state.bottom)
        diagram.arrow(state.top, score.bottom)
        diagram.arrow(score.top, weight.bottom)
        diagram.arrow(weight.top, (total.x + 30 * (index - 1.5), 62))
        diagram.arrow((query.x, 238), (query.x, 217), (x + 28, 217), (x + 28, 197))
    diagram.note(545, 114, "softmax: sum 1")
    joined = diagram.box(620, 45, "[context ; sₜ]", width=130)
    diagram.arrow(total.right, joined.left)
    diagram.arrow((640, 238), (640, 62))
    diagram.note(620, 290, "query")
    return diagram


def self_attention() -> Diagram:
    """The six steps for the first of two words, with the numbers of chapter 12."""
    diagram = Diagram(690, 500, "Self-attention in six steps, for the first of two words")
    steps = ("1  query, keys, values", "2  scores", "3  ÷ √64", "4  softmax", "5  weigh", "6  sum")
    for step, y in zip(steps, (350, 285, 230, 175, 120, 45), strict=True):
        diagram.note(85, y + 4, step)
    query = diagram.box(215, 350, "q₁", width=50, kind="main")
    total = diagram.box(405, 45, "z₁ = 0.88 v₁ + 0.12 v₂", width=190, kind="main")
    for index, (word, numbers) in enumerate((("Thinking", (112, 14, 0.88)), ("Machines", (96, 12, 0.12)))):
        x, name = 300 + 230 * index, "₁₂"[index]
        vector = diagram.box(x, 420, f"x{name}", width=60)
        diagram.text(x, 482, word)
        diagram.arrow((x, 465), vector.bottom)
        key, value = (diagram.box(x + shift, 350, f"{kind}{name}", width=50) for shift, kind in ((0, "k"), (80, "v")))
        for target in (key, value, query)[: 3 - index]:
            diagram.arrow(vector.top, target.bottom)
        score = diagram.box(x, 285, f"q₁ · k{name} = {numbers[0]}", width=120)
        scaled, weight = (diagram.box(x, y, f"{n}", width=60) for y, n in ((230, numbers[1]), (175, numbers[2])))
        weighed = diagram.box(x, 120, f"{numbers[2]} v{name}", width=80)
        for low, high in ((key, score), (score, scaled), (scaled, weight), (weight, weighed)):
            diagram.arrow(low.top, high.bottom)
        diagram.arrow(query.top, (215, 318), (x - 30, 318), (x - 30, 302))
        diagram.arrow(value.top, (value.x, 120), weighed.right)
        diagram.arrow(weighed.top, (total.x + 60 * (2 * index - 1), 62))
    return diagram


def mask() -> Diagram:
    """Scores, the mask that is added to them, and the weights."""
    diagram = Diagram(640, 190, "A causal mask is added to the scores, before the softmax")
    scores = (("2", "1", "0"), ("1", "2", "1"), ("0", "1", "2"))
    added = (("0", "−∞", "−∞"), ("0", "0", "−∞"), ("0", "0", "0"))
    weights = (("1", "0", "0"), ("0.27", "0.73", "0"), ("0.09", "0.24", "0.67"))
    for left, name, rows in ((60, "scores", scores), (265, "mask M", added), (490, "weights", weights)):
        diagram.note(left + 48, 172, name)
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                kind = "main" if column <= row else "box"
                diagram.box(left + 48 * column, 40 + 40 * row, cell, width=46, height=38, kind=kind)
    diagram.text(210, 85, "+")
    diagram.arrow((395, 80), (458, 80))
    diagram.note(426, 70, "softmax")
    return diagram


def multi_head() -> Diagram:
    """Four heads of self-attention."""
    diagram = Diagram(620, 330, "Multi-head attention: smaller spaces side by side, then joined")
    words = diagram.box(310, 270, "X: n words of d numbers", width=220)
    joined = diagram.box(310, 110, "[head₁ ; head₂ ; head₃ ; head₄]", width=260)
    output = diagram.box(310, 45, "W_O", width=90, kind="main")
    diagram.text(310, 316, "source or target")
    diagram.arrow((310, 300), words.bottom)
    for index in range(4):
        x = 85 + 150 * index
        head = diagram.box(x, 190, "Q, K, V of d/4", width=120, kind="main")
        diagram.arrow((310 + 50 * (index - 1.5), 253), head.bottom)
        diagram.arrow(head.top, (310 + 60 * (index - 1.5), 127))
    diagram.arrow(joined.top, output.bottom)
    diagram.arrow(output.top, (310, 8))
    return diagram


def writing() -> Diagram:
    """A language model that writes: each word becomes an input."""
    diagram = Diagram(620, 190, "A language model writes: the word that was drawn is the next input")
    words = ("START", "the", "king", "sleeps")
    for index, word in enumerate(words):
        x = 80 + 150 * index
        model = diagram.box(x, 95, "p(next word)", width=110, kind="main")
        diagram.text(x, 172, word)
        diagram.arrow((x, 156), model.bottom)
        diagram.text(x, 30, (*words[1:], "END")[index])
        diagram.arrow(model.top, (x, 42))
        if index < 3:
            diagram.arrow((x + 30, 26), (x + 75, 26), (x + 75, 167), (x + 124, 167))
    return diagram


def teacher_forcing() -> Diagram:
    """The decoder in training and in use."""
    diagram = Diagram(780, 230, "Teacher forcing: in training the decoder reads the reference, in use its own output")
    for left, name, words in (
        (15, "training", ("il", "m'", "a")),
        (400, "in use", ("il", "m'", "est")),
    ):
        diagram.group(left, 10, 365, 210, name)
        before: Box | None = None
        for index, output in enumerate(words):
            x = left + 75 + 110 * index
            state = diagram.box(x, 120, f"s{'₁₂₃'[index]}", width=56, kind="main")
            diagram.text(x, 200, ("START", *("il", "m'"))[index])
            diagram.arrow((x, 185), state.bottom)
            diagram.arrow(state.top, (x, 68))
            diagram.text(x, 56, output if left > 15 else f"−log p({output})")
            if before:
                diagram.arrow(before.right, state.left)
            if left > 15 and index < 2:
                diagram.arrow((x + 18, 51), (x + 55, 51), (x + 55, 195), (x + 92, 195))
            before = state
    return diagram


def placement() -> Diagram:
    """Attention before the step (Bahdanau et al.) and after it (Luong et al.)."""
    diagram = Diagram(760, 290, "Attention before the step of the decoder, and after it")
    for left, name in ((15, "before the step (Bahdanau et al. 2015)"), (390, "after the step (Luong et al. 2015)")):
        diagram.group(left, 10, 355, 270, name)
        memory = diagram.box(left + 75, 230, "h₁ … h₄", width=100)
        context = diagram.box(left + 75, 145, "context", width=86, kind="main")
        diagram.arrow(memory.top, context.bottom)
        state = diagram.box(left + 260, 145 if left < 100 else 230, "sₜ", width=60)
        if left < 100:
            query = diagram.box(left + 260, 230, "sₜ₋₁", width=60)
            diagram.arrow((query.x - 30, 230), (left + 148, 230), (left + 148, 153), (left + 118, 153))
            diagram.arrow(query.top, state.bottom)
            diagram.arrow((left + 118, 138), (state.x - 30, 138))
            diagram.note(left + 200, 250, "query")
            output = diagram.box(left + 260, 70, "softmax(W sₜ)", width=130)
            diagram.arrow(state.top, output.bottom)
        else:
            diagram.arrow((state.x - 30, 230), (left + 148, 230), (left + 148, 153), (left + 118, 153))
            diagram.note(left + 200, 250, "query")
            joined = diagram.box(left + 260, 145, "tanh(Wₐ [context ; sₜ])", width=170)
            diagram.arrow((left + 118, 138), (joined.x - 85, 138))
            diagram.arrow(state.top, joined.bottom)
            output = diagram.box(left + 260, 70, "softmax(W s̃ₜ)", width=130)
            diagram.arrow(joined.top, output.bottom)
    return diagram


def scores() -> Diagram:
    """The three ways from a query and a key to a score."""
    diagram = Diagram(690, 250, "Three scores: a product, a product with a matrix, a hidden layer")
    for x, name, parts in (
        (110, "dot", ("q · k",)),
        (330, "general", ("q · (Wₑ k)", "Wₑ k")),
        (560, "additive", ("w · hidden", "hidden: tanh(Wq q + Wk k)")),
    ):
        query, key = (diagram.box(x + shift, 210, text, width=44) for shift, text in ((-45, "q"), (45, "k")))
        top = diagram.box(x, 70, parts[0], width=110, kind="main")
        middle = None if len(parts) < 2 else diagram.box(x + (45 if name == "general" else 0), 140, parts[1],
                                                         width=60 if name == "general" else 200)  # fmt: skip
        if middle is None:
            diagram.arrow(query.top, (x - 20, 87))
            diagram.arrow(key.top, (x + 20, 87))
        else:
            diagram.arrow(key.top, (key.x, 157))
            diagram.arrow(query.top, (x - 45, 157 if name == "additive" else 87))
            diagram.arrow(middle.top, (middle.x, 87))
        diagram.text(x, 25, "score e")
        diagram.arrow(top.top, (x, 32))
        diagram.note(x, 244, name)
    return diagram


def links() -> Diagram:
    """Word links that are not one to one."""
    diagram = Diagram(520, 190, "Word links: one to many, crossing, and none")
    rows = (("he", "does", "not", "see", "the", "horse"), 40), (("il", "ne", "voit", "pas", "le", "cheval"), 150)
    source, target = (
        [diagram.box(55 + 82 * i, y, word, width=70, kind="main" if y > 100 else "box") for i, word in enumerate(words)]
        for words, y in rows
    )
    for start, end in ((0, 0), (2, 1), (2, 3), (3, 2), (4, 4), (5, 5)):
        diagram.arrow(source[start].bottom, target[end].top)
    return diagram


def merges() -> Diagram:
    """The merges that make two units of `lowest`."""
    diagram = Diagram(560, 250, "Byte-pair encoding: merges, in the order in which they were learned")
    level = {"l": 60, "o": 130, "w": 200, "e": 270, "s": 340, "t": 410, "</w>": 490}
    boxes = {text: diagram.box(x, 215, text, width=54) for text, x in level.items()}
    for number, (left, right, y) in enumerate(
        (("e", "s", 160), ("l", "o", 160), ("t", "</w>", 160), ("es", "t</w>", 100), ("lo", "w", 100)), 1
    ):
        first, second = boxes[left], boxes[right]
        kind = "main" if y < 160 else "box"
        merged = diagram.box((first.x + second.x) / 2, y, f"{number}. {left}{right}", width=86, kind=kind)
        diagram.arrow(first.top, (merged.x - 15, merged.bottom[1]))
        diagram.arrow(second.top, (merged.x + 15, merged.bottom[1]))
        boxes[left + right] = merged
    diagram.text(280, 40, "lowest  →  low + est")
    return diagram


def embedding() -> Diagram:
    """From words to the input of the first layer."""
    diagram = Diagram(640, 330, "Words, ids, rows of E, positions, and their sum")
    for index, (word, number) in enumerate((("je", 5), ("suis", 6), ("étudiant", 8))):
        x = 180 + 170 * index
        diagram.text(x, 316, word)
        identity = diagram.box(x, 260, f"id {number}", width=70)
        row = diagram.box(x, 195, f"√d E[{number}]", width=100, kind="main")
        total = diagram.box(x, 125, "+", width=44)
        vector = diagram.box(x, 55, f"x{'₀₁₂'[index]}", width=70, kind="main")
        place = diagram.box(x - 85, 125, f"PE{'₀₁₂'[index]}", width=56)
        diagram.arrow((x, 300), identity.bottom)
        for low, high in ((identity, row), (row, total), (total, vector)):
            diagram.arrow(low.top, high.bottom)
        diagram.arrow(place.right, total.left)
    diagram.note(40, 59, "X")
    return diagram


def visibility() -> Diagram:
    """Which word sees which: encoder, decoder, prefix-LM."""
    diagram = Diagram(680, 240, "Who sees whom: an encoder, a decoder, a prefix-LM of two source and two target words")
    for left, name, prefix in ((40, "encoder", 4), (265, "decoder, language model", 0), (490, "prefix-LM", 2)):
        diagram.note(left + 62, 225, name)
        for row in range(4):
            for column in range(4):
                seen = column <= row or (row < prefix and column < prefix)
                text = "✓" if seen else ""
                place = left + 42 * column, 45 + 42 * row
                diagram.box(*place, text, width=38, height=38, kind="main" if seen else "box")
    return diagram


def batch() -> Diagram:
    """A padded rectangle, and the same words end to end."""
    diagram = Diagram(700, 190, "Three sentences as a padded rectangle, and end to end")
    lengths, number = (4, 1, 3), 0
    for row, length in enumerate(lengths):
        for column in range(4):
            word = column < length
            diagram.box(60 + 46 * column, 40 + 44 * row, f"{'abc'[row]}{'₁₂₃₄'[column]}" if word else "pad",
                        width=42, height=38, kind="main" if word else "box")  # fmt: skip
            if word:
                diagram.box(330 + 46 * number, 84, f"{'abc'[row]}{'₁₂₃₄'[column]}", width=42, height=38, kind="main")
                number += 1
    diagram.note(129, 182, "12 cells, 4 of them padding")
    diagram.note(490, 182, "8 tokens, lengths 4, 1, 3")
    return diagram


def pooling() -> Diagram:
    """Attention with one learned query."""
    diagram = Diagram(640, 290, "Attention pooling: one learned query, one vector, a classifier")
    query = diagram.box(560, 220, "q (learned)", width=100, kind="main")
    total = diagram.box(240, 70, "Σ α h", width=100, kind="main")
    for index, word in enumerate(("il", "ne", "dort", "pas")):
        x = 60 + 120 * index
        state = diagram.box(x, 220, f"h{'₁₂₃₄'[index]}", width=56)
        weight = diagram.box(x, 145, f"α{'₁₂₃₄'[index]}", width=56)
        diagram.text(x, 278, word)
        diagram.arrow((x, 262), state.bottom)
        diagram.arrow(state.top, weight.bottom)
        diagram.arrow(weight.top, (total.x + 22 * (index - 1.5), 87))
        diagram.arrow((query.x, 203), (query.x, 183), (x + 18, 183), (x + 18, 162))
    classes = diagram.box(430, 70, "softmax(W h̄)", width=120)
    diagram.arrow(total.right, classes.left)
    diagram.arrow(classes.right, (540, 70))
    diagram.text(590, 75, "negated?")
    return diagram
