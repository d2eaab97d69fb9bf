"""The verbs of the lexicon, auxiliaries, and selectional preferences.

Columns of a verb: English base, third person, past and, if it has one, its particle (*wait for*);
French infinitive, the present of *je*, *il*, *nous*, *ils*, and the participle. An English verb whose past looks like
its base (*hit*, *read*) is used in the present with *he* and *she* only, so that *they hit* is always the past.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.tasks.grammar.lexicon import (
    ANIMALS,
    CONTAINERS,
    DISHES,
    DRINKS,
    FOOD,
    FRAGILE,
    GOODS,
    KIN,
    NOUNS,
    OPENINGS,
    PEOPLE,
    TEXTS,
    THINGS,
    Noun,
    rows,
)

HAVE = ("ai", "a", "avons", "ont")
HAD = ("avais", "avait", "avions", "avaient")
BE = ("suis", "est", "sommes", "sont")
WAS = ("étais", "était", "étions", "étaient")


class Verb(NamedTuple):
    """A verb; `past` is empty if the grammar does not use it."""

    base: str
    third: str
    past: str
    particle: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    auxiliary: tuple[str, ...] = HAVE
    imperfect: tuple[str, ...] = ()  # the French past, where it is not the passé composé
    tail: str = ""  # English words after the object that belong to the verb


class Auxiliary(NamedTuple):
    """A verb that takes an infinitive; the English forms are complete, so that *cannot* needs no rule."""

    affirmative: tuple[str, ...]
    negative: tuple[str, ...]
    french: tuple[str, ...]


def _verbs(auxiliary: tuple[str, ...], table: str) -> dict[str, Verb]:
    verbs = {}
    for base, third, past, particle, infinitive, je, il, nous, ils, participle in rows(table):
        name = f"{base} {particle}".strip()
        verbs[name] = Verb(base, third, past, particle, infinitive, (je, il, nous, ils), participle, auxiliary)
    return verbs


# fmt: off
TRANSITIVE = _verbs(HAVE, """
    see     sees     saw      -   voir       vois      voit      voyons      voient      vu
    find    finds    found    -   trouver    trouve    trouve    trouvons    trouvent    trouvé
    hear    hears    heard    -   entendre   entends   entend    entendons   entendent   entendu
    follow  follows  followed -   suivre     suis      suit      suivons     suivent     suivi
    help    helps    helped   -   aider      aide      aide      aidons      aident      aidé
    kiss    kisses   kissed   -   embrasser  embrasse  embrasse  embrassons  embrassent  embrassé
    meet    meets    met      -   rencontrer rencontre rencontre rencontrons rencontrent rencontré
    wait    waits    waited   for attendre   attends   attend    attendons   attendent   attendu
    look    looks    looked   for chercher   cherche   cherche   cherchons   cherchent   cherché
    listen  listens  listened to  écouter    écoute    écoute    écoutons    écoutent    écouté
    love    loves    -        -   aimer      aime      aime      aimons      aiment      -
    know    knows    -        -   connaître  connais   connaît   connaissons connaissent -
    eat     eats     ate      -   manger     mange     mange     mangeons    mangent     mangé
    drink   drinks   drank    -   boire      bois      boit      buvons      boivent     bu
    buy     buys     bought   -   acheter    achète    achète    achetons    achètent    acheté
    sell    sells    sold     -   vendre     vends     vend      vendons     vendent     vendu
    lose    loses    lost     -   perdre     perds     perd      perdons     perdent     perdu
    take    takes    took     -   prendre    prends    prend     prenons     prennent    pris
    open    opens    opened   -   ouvrir     ouvre     ouvre     ouvrons     ouvrent     ouvert
    close   closes   closed   -   fermer     ferme     ferme     fermons     ferment     fermé
    read    reads    read     -   lire       lis       lit       lisons      lisent      lu
    write   writes   wrote    -   écrire     écris     écrit     écrivons    écrivent    écrit
    break   breaks   broke    -   casser     casse     casse     cassons     cassent     cassé
    hide    hides    hid      -   cacher     cache     cache     cachons     cachent     caché
    hit     hits     hit      -   frapper    frappe    frappe    frappons    frappent    frappé
    have    has      had      -   avoir      ai        a         avons       ont         -
""")
TRANSITIVE["have"] = TRANSITIVE["have"]._replace(imperfect=HAD)
PIE = "hit with a pie"
TRANSITIVE[PIE] = TRANSITIVE["hit"]._replace(
    infinitive="entarter",
    present=("entarte", "entarte", "entartons", "entartent"),
    participle="entarté",
    tail="with a pie",
)
GIVING = _verbs(HAVE, """
    give    gives    gave     -   donner     donne     donne     donnons     donnent     donné
    show    shows    showed   -   montrer    montre    montre    montrons    montrent    montré
    bring   brings   brought  -   apporter   apporte   apporte   apportons   apportent   apporté
""")
SPEAKING = _verbs(HAVE, """
    speak   speaks   spoke    -   parler     parle     parle     parlons     parlent     parlé
""")
DOING = _verbs(HAVE, """
    sleep   sleeps   slept    -   dormir     dors      dort      dormons     dorment     dormi
    dance   dances   danced   -   danser     danse     danse     dansons     dansent     dansé
    sing    sings    sang     -   chanter    chante    chante    chantons    chantent    chanté
    work    works    worked   -   travailler travaille travaille travaillons travaillent travaillé
    laugh   laughs   laughed  -   rire       ris       rit       rions       rient       ri
    run     runs     ran      -   courir     cours     court     courons     courent     couru
    cry     cries    cried    -   pleurer    pleure    pleure    pleurons    pleurent    pleuré
""")
MOVING = _verbs(BE, """
    go      goes     went     -   aller      vais      va        allons      vont        allé
    come    comes    came     -   venir      viens     vient     venons      viennent    venu
    arrive  arrives  arrived  -   arriver    arrive    arrive    arrivons    arrivent    arrivé
    leave   leaves   left     -   partir     pars      part      partons     partent     parti
    fall    falls    fell     -   tomber     tombe     tombe     tombons     tombent     tombé
    stay    stays    stayed   -   rester     reste     reste     restons     restent     resté
""")
# fmt: on
VERBS = TRANSITIVE | GIVING | SPEAKING | DOING | MOVING

AUXILIARIES = {
    "going to": Auxiliary(
        ("am going to", "is going to", "are going to", "are going to"),
        ("am not going to", "is not going to", "are not going to", "are not going to"),
        ("vais", "va", "allons", "vont"),
    ),
    "want to": Auxiliary(
        ("want to", "wants to", "want to", "want to"),
        ("do not want to", "does not want to", "do not want to", "do not want to"),
        ("veux", "veut", "voulons", "veulent"),
    ),
    "wanted to": Auxiliary(
        ("wanted to",) * 4, ("did not want to",) * 4, ("voulais", "voulait", "voulions", "voulaient")
    ),
    "can": Auxiliary(("can",) * 4, ("cannot",) * 4, ("peux", "peut", "pouvons", "peuvent")),
    "must": Auxiliary(("must",) * 4, ("must not",) * 4, ("dois", "doit", "devons", "doivent")),
}

_EVERYBODY = PEOPLE + KIN
_ALIVE = _EVERYBODY + ANIMALS
_GROCERIES = FOOD + DISHES + DRINKS
# Which objects a verb takes with a human subject.
OBJECTS: dict[str, tuple[Noun, ...]] = {
    "see": _ALIVE + THINGS,
    "find": ANIMALS + THINGS + TEXTS,
    "hear": _ALIVE,
    "follow": _ALIVE,
    "help": _EVERYBODY,
    "kiss": _EVERYBODY,
    "meet": _EVERYBODY,
    "wait for": _EVERYBODY,
    "look for": ANIMALS + THINGS + TEXTS,
    "listen to": _EVERYBODY,
    "love": _ALIVE + _GROCERIES,
    "know": _EVERYBODY,
    "eat": FOOD + DISHES,
    "drink": DRINKS,
    "buy": ANIMALS + _GROCERIES + THINGS + TEXTS,
    "sell": ANIMALS + _GROCERIES + THINGS,
    "lose": GOODS + CONTAINERS + TEXTS,
    "take": _GROCERIES + GOODS + CONTAINERS + TEXTS,
    "open": (*OPENINGS, *CONTAINERS, *(NOUNS[name] for name in ("bottle", "letter", "book", "umbrella"))),
    "close": (*OPENINGS, *CONTAINERS, NOUNS["book"], NOUNS["umbrella"]),
    "read": TEXTS,
    "write": tuple(noun for noun in TEXTS if noun.english != "newspaper"),
    "break": (*FRAGILE, NOUNS["window"], NOUNS["egg"]),
    "hide": GOODS + CONTAINERS + TEXTS,
    "hit": _EVERYBODY,
    PIE: _EVERYBODY,
    "have": ANIMALS + THINGS + tuple(noun for noun in TEXTS if noun.english != "story"),
    "give": FOOD + TEXTS + GOODS + CONTAINERS,
    "show": ANIMALS + TEXTS + THINGS,
    "bring": FOOD + TEXTS + GOODS + CONTAINERS,
}
# Which objects a verb takes with an animal as subject.
PREY: dict[str, tuple[Noun, ...]] = {
    "see": _ALIVE,
    "hear": _ALIVE,
    "follow": _ALIVE,
    "look for": ANIMALS,
    "eat": (*DISHES, NOUNS["apple"]),
    "drink": (NOUNS["water"], NOUNS["milk"]),
}
WEAPONS = tuple(NOUNS[name] for name in ("umbrella", "hat", "book", "ball", "bag"))
