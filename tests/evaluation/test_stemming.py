"""The Porter stemmer: the examples of the paper, with the stems of NLTK 3.10."""

from __future__ import annotations

from weft.evaluation.stemming import stem

STEMS = """
caresses caress  ponies poni  ties tie  dies die  died die  cats cat  caress caress  feed feed  agreed agre
plastered plaster  bled bled  motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
tanned tan  falling fall  hissing hiss  fizzed fizz  failing fail  filing file  happy happi  enjoy enjoy  by by
relational relat  conditional condit  rational ration  valenci valenc  hesitanci hesit  digitizer digit
conformabli conform  radicalli radic  differentli differ  vileli vile  analogousli analog  vietnamization vietnam
predication predic  operator oper  feudalism feudal  decisiveness decis  hopefulness hope  callousness callous
formaliti formal  sensitiviti sensit  sensibiliti sensibl  triplicate triplic  formative form  formalize formal
electriciti electr  electrical electr  hopeful hope  goodness good  revival reviv  allowance allow  inference infer
airliner airlin  gyroscopic gyroscop  adjustable adjust  defensible defens  irritant irrit  replacement replac
adjustment adjust  dependent depend  adoption adopt  homologou homolog  communism commun  activate activ
angulariti angular  homologous homolog  effective effect  bowdlerize bowdler  probate probat  rate rate  cease ceas
controll control  roll roll  connections connect  biology biolog  possibly possibl  agreements agreement  yes ye
is is  2000 2000  abli abli  sky sky  skies sky  dying die  news news  innings inning  proceed proceed
"""


def test_stems() -> None:
    words = STEMS.split()
    expected = dict(zip(words[::2], words[1::2], strict=True))
    assert {word: stem(word) for word in expected} == expected
