"""Commands of LaTeX that stand for a symbol, a function's name, a space, an accent or an alphabet.

Names are those of LaTeX and amsmath; symbols are Unicode's.
"""

from __future__ import annotations


def _pairs(text: str) -> dict[str, str]:
    """Names and symbols in turn."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LETTERS = _pairs("""
    alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ
    nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ
    omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω ell ℓ hbar ℏ imath ı
    jmath ȷ Re ℜ Im ℑ wp ℘ aleph ℵ partial ∂ nabla ∇ infty ∞ emptyset ∅ varnothing ∅ angle ∠ triangle △ degree °
    top ⊤ bot ⊥ dagger † ddagger ‡ S § P ¶ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ sharp ♯ natural ♮
    Box □ square □ blacksquare ■ checkmark ✓ _ _ % % $ $ # # & &
""")
"""Symbols that are set like variables."""

OPERATORS = _pairs("""
    times × div ÷ pm ± mp ∓ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ cap ∩ cup ∪
    wedge ∧ land ∧ vee ∨ lor ∨ setminus ∖ backslash ∖ le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ lt < gt > ne ≠ neq ≠
    equiv ≡ sim ∼ simeq ≃ approx ≈ cong ≅ propto ∝ ll ≪ gg ≫ prec ≺ succ ≻ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃
    subseteq ⊆ supseteq ⊇ subsetneq ⊊ perp ⊥ parallel ∥ mid ∣ nmid ∤ vdash ⊢ models ⊨ asymp ≍ doteq ≐ triangleq ≜
    to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⟺ implies ⟹
    longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹ mapsto ↦ uparrow ↑ downarrow ↓ updownarrow ↕ hookrightarrow ↪
    rightharpoonup ⇀ rightleftharpoons ⇌ nearrow ↗ searrow ↘ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ therefore ∴
    because ∵ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ colon : prime ′ surd √ vert | Vert ‖ | ‖ { { } } lbrace { rbrace }
    lbrack [ rbrack ] langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lvert | rvert | lVert ‖ rVert ‖ ulcorner ⌜
    urcorner ⌝ amalg ⨿ uplus ⊎ sqcap ⊓ sqcup ⊔ wr ≀ bowtie ⋈ diamond ⋄ frown ⌢ smile ⌣ lneq ⪇ gneq ⪈ succeq ⪰ preceq ⪯
    | ‖
""")
"""Operators, relations, arrows and fences."""

LARGE = _pairs("""
    sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ bigsqcup ⨆
""")
"""Large operators, whose limits stand below and above."""
INTEGRALS = _pairs("int ∫ iint ∬ iiint ∭ oint ∮")
"""Large operators, whose limits stand beside."""

FUNCTIONS = _names("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp deg arg dim hom ker")
LIMITS = _names("lim max min sup inf det gcd Pr limsup liminf argmax argmin")
"""Functions whose limits stand below."""

ACCENTS = _pairs("""
    hat ^ widehat ^ bar ¯ overline ¯ vec → overrightarrow → overleftarrow ← tilde ~ widetilde ~ dot ˙ ddot ¨ dddot ⃛
    check ˇ breve ˘ acute ´ grave ` mathring ˚ overbrace ⏞
""")
UNDER = _pairs("underline _ underbrace ⏟")
SPACES = {",": "0.17em", ":": "0.22em", ">": "0.22em", ";": "0.28em", "!": "0", " ": "0.33em", "~": "0.33em"}
SPACES |= {"quad": "1em", "qquad": "2em", "enspace": "0.5em", "thinspace": "0.17em"}
IGNORED = _names(
    "displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits big Big bigg Bigg bigl bigr Bigl Bigr biggl "
    "biggr Biggl Biggr nonumber notag mathstrut"
)
"""Commands about sizes and places, which the browser decides."""

ALPHABETS = {
    "mathbf": (0x1D400, 0x1D41A, 0x1D7CE),
    "boldsymbol": (0x1D468, 0x1D482, 0x1D7CE),
    "mathbb": (0x1D538, 0x1D552, 0x1D7D8),
    "mathcal": (0x1D49C, 0x1D4B6, 0),
    "mathscr": (0x1D49C, 0x1D4B6, 0),
    "mathfrak": (0x1D504, 0x1D51E, 0),
    "mathsf": (0x1D5A0, 0x1D5BA, 0x1D7E2),
    "mathtt": (0x1D670, 0x1D68A, 0x1D7F6),
}
"""The first capital, the first small letter and the first digit of an alphabet in Unicode; 0: it has none."""
EARLIER = _pairs("""
    mathbbC ℂ mathbbH ℍ mathbbN ℕ mathbbP ℙ mathbbQ ℚ mathbbR ℝ mathbbZ ℤ mathcalB ℬ mathcalE ℰ mathcalF ℱ mathcalH ℋ
    mathcalI ℐ mathcalL ℒ mathcalM ℳ mathcalR ℛ mathcale ℯ mathcalg ℊ mathcalo ℴ mathfrakC ℭ mathfrakH ℌ mathfrakI ℑ
    mathfrakR ℜ mathfrakZ ℨ
""")
"""Letters that Unicode had before it had the alphabets."""
UPRIGHT = _names("mathrm operatorname mathit mathnormal")
TEXTS = _names("text mbox hbox textrm textbf textit textsf texttt textnormal")

MATRICES = {
    "matrix": ("", ""),
    "smallmatrix": ("", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("{", "}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("‖", "‖"),
    "array": ("", ""),
    "cases": ("{", ""),
    "aligned": ("", ""),
    "align": ("", ""),
    "split": ("", ""),
    "gathered": ("", ""),
}
"""Environments of rows and columns, and the fences around them."""


def in_alphabet(command: str, text: str) -> str:
    """A letter or digit in an alphabet; other characters stay as they are."""
    name = "mathcal" if command == "mathscr" else command
    earlier = EARLIER.get(f"{name}{text}")
    for first, start in zip("Aa0", ALPHABETS[command], strict=True):
        if earlier is None and start and len(text) == 1 and 0 <= ord(text) - ord(first) < (10 if first == "0" else 26):
            return chr(start + ord(text) - ord(first))
    return text if earlier is None else earlier
