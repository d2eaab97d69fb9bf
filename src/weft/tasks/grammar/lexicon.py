"""The lexicon: nouns, adjectives and function words, each with the forms that both languages need.

A table is a block of text, one entry per line, columns separated by white space; ``-`` is an empty column and ``_``
a space inside a column. Verbs are in `verbs`.

Every English word has one translation only, whatever the sentence, so that the French is a function of the English:
*friend* is always *ami*. No profession has a gender of its own: what people are or do is said of women and of men, by
two words (*actor*, *actress*) or by one with *male* or *female*, equally often, so that nobody learns here that nurses
are women.
"""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    """A noun; `plural` is empty if the grammar does not use it."""

    english: str
    plural: str
    french: str
    french_plural: str
    gender: str
    kind: str


class Adjective(NamedTuple):
    """An adjective: the forms are masculine, feminine, the two plurals, and masculine before a vowel."""

    english: str
    forms: tuple[str, ...]


class Phrase(NamedTuple):
    """A fixed expression; `links` gives the English positions of each French word, counted from its first word."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]


class Preposition(NamedTuple):
    """A preposition: every English word of it is linked to every French one."""

    english: str
    french: tuple[str, ...]


class Pronoun(NamedTuple):
    """A personal pronoun; `person` counts I, he or she, we, they from zero, as the columns of the verbs do."""

    subject: str
    object: str
    french: str
    direct: str
    indirect: str
    person: int
    gender: str
    plural: bool


def rows(table: str) -> list[list[str]]:
    """The rows of a table, as lists of columns."""
    lines = [line.split() for line in table.strip().splitlines()]
    return [["" if column == "-" else column.replace("_", " ") for column in line] for line in lines]


def _nouns(kind: str, table: str) -> tuple[Noun, ...]:
    return tuple(Noun(one, many, un, des, gender, kind) for one, many, un, des, gender in rows(table))


def phrase(english: str, french: str, links: str) -> Phrase:
    """A fixed expression from text; the links are written ``0-0 1-1``, English word first."""
    pairs = [link.split("-") for link in links.split()]
    targets = french.split()
    linked = tuple(tuple(int(a) for a, b in pairs if int(b) == place) for place in range(len(targets)))
    return Phrase(tuple(english.split()), tuple(targets), linked)


# fmt: off
# English singular, plural; French singular, plural; gender.
GROWN = _nouns("person", """
    man       men         homme      hommes       m
    woman     women       femme      femmes       f
    king      kings       roi        rois         m
    queen     queens      reine      reines       f
    prince    princes     prince     princes      m
    princess  princesses  princesse  princesses   f
    hero      heroes      héros      héros        m
    heroine   heroines    héroïne    héroïnes     f
    wizard    wizards     sorcier    sorciers     m
    witch     witches     sorcière   sorcières    f
    actor     actors      acteur     acteurs      m
    actress   actresses   actrice    actrices     f
""") + _nouns("person", """
    male_nurse      male_nurses      infirmier   infirmiers   m
    female_nurse    female_nurses    infirmière  infirmières  f
    male_baker      male_bakers      boulanger   boulangers   m
    female_baker    female_bakers    boulangère  boulangères  f
    male_soldier    male_soldiers    soldat      soldats      m
    female_soldier  female_soldiers  soldate     soldates     f
    male_thief      male_thieves     voleur      voleurs      m
    female_thief    female_thieves   voleuse     voleuses     f
""")
CHILDREN = _nouns("child", """
    boy       boys        garçon     garçons      m
    girl      girls       fille      filles       f
    child     children    enfant     enfants      m
""")
KIN = _nouns("kin", """
    father    -           père       -            m
    mother    -           mère       -            f
    brother   brothers    frère      frères       m
    sister    sisters     sœur       sœurs        f
    uncle     uncles      oncle      oncles       m
    aunt      aunts       tante      tantes       f
    friend    friends     ami        amis         m
""")
ANIMALS = _nouns("animal", """
    dog       dogs        chien      chiens       m
    cat       cats        chat       chats        m
    horse     horses      cheval     chevaux      m
    bird      birds       oiseau     oiseaux      m
    cow       cows        vache      vaches       f
    mouse     mice        souris     souris       f
    owl       owls        hibou      hiboux       m
    goat      goats       chèvre     chèvres      f
""")
FOOD = _nouns("food", """
    apple     apples      pomme      pommes       f
    cake      cakes       gâteau     gâteaux      m
    egg       eggs        œuf        œufs         m
    orange    oranges     orange     oranges      f
    pie       pies        tarte      tartes       f
""")
DISHES = _nouns("mass", """
    bread     -           pain       -            m
    cheese    -           fromage    -            m
    soup      -           soupe      -            f
    meat      -           viande     -            f
""")
DRINKS = _nouns("mass", """
    water     -           eau        -            f
    milk      -           lait       -            m
    wine      -           vin        -            m
    beer      -           bière      -            f
    tea       -           thé        -            m
""")
TEXTS = _nouns("text", """
    book      books       livre      livres       m
    letter    letters     lettre     lettres      f
    newspaper newspapers  journal    journaux     m
    story     stories     histoire   histoires    f
""")
GOODS = _nouns("goods", """
    hat       hats        chapeau    chapeaux     m
    key       keys        clé        clés         f
    dress     dresses     robe       robes        f
    coat      coats       manteau    manteaux     m
    flower    flowers     fleur      fleurs       f
    umbrella  umbrellas   parapluie  parapluies   m
    axe       axes        hache      haches       f
    ball      balls       balle      balles       f
""")
FRAGILE = _nouns("goods", """
    lamp      lamps       lampe      lampes       f
    bottle    bottles     bouteille  bouteilles   f
    clock     clocks      horloge    horloges     f
    chair     chairs      chaise     chaises      f
    toy       toys        jouet      jouets       m
""")
CONTAINERS = _nouns("goods", """
    box       boxes       boîte      boîtes       f
    bag       bags        sac        sacs         m
""")
OPENINGS = _nouns("opening", """
    door      doors       porte      portes       f
    window    windows     fenêtre    fenêtres     f
""")
SUPPORTS = _nouns("support", """
    table     -           table      -            f
    bed       -           lit        -            m
    bench     -           banc       -            m
    tree      -           arbre      -            m
""")
BUILDINGS = _nouns("place", """
    school    -           école      -            f
    church    -           église     -            f
    hotel     -           hôtel      -            m
    hospital  -           hôpital    -            m
    castle    -           château    -            m
    market    -           marché     -            m
    station   -           gare       -            f
    theatre   -           théâtre    -            m
""")
ROOMS = _nouns("place", """
    house     -           maison     -            f
    kitchen   -           cuisine    -            f
    garden    -           jardin     -            m
""")
OUTDOORS = _nouns("place", """
    street    -           rue        -            f
    forest    -           forêt      -            f
    village   -           village    -            m
    city      -           ville      -            f
    park      -           parc       -            m
""")
PEOPLE = GROWN + CHILDREN
THINGS = GOODS + FRAGILE + CONTAINERS
NOUNS = {noun.english: noun for group in (
    PEOPLE, KIN, ANIMALS, FOOD, DISHES, DRINKS, TEXTS, THINGS, OPENINGS, SUPPORTS, BUILDINGS, ROOMS, OUTDOORS,
) for noun in group}

# English; masculine, feminine, masculine plural, feminine plural, masculine before a vowel.
_ADJECTIVES = """
    small      petit    petite    petits    petites    petit
    big        grand    grande    grands    grandes    grand
    old        vieux    vieille   vieux     vieilles   vieil
    beautiful  beau     belle     beaux     belles     bel
    new        nouveau  nouvelle  nouveaux  nouvelles  nouvel
    good       bon      bonne     bons      bonnes     bon
    young      jeune    jeune     jeunes    jeunes     jeune
    rich       riche    riche     riches    riches     riche
    kind       gentil   gentille  gentils   gentilles  gentil
    sick       malade   malade    malades   malades    malade
    sad        triste   triste    tristes   tristes    triste
    happy      heureux  heureuse  heureux   heureuses  heureux
    tired      fatigué  fatiguée  fatigués  fatiguées  fatigué
    red        rouge    rouge     rouges    rouges     rouge
    green      vert     verte     verts     vertes     vert
    blue       bleu     bleue     bleus     bleues     bleu
    black      noir     noire     noirs     noires     noir
    white      blanc    blanche   blancs    blanches   blanc
    heavy      lourd    lourde    lourds    lourdes    lourd
    expensive  cher     chère     chers     chères     cher
    cold       froid    froide    froids    froides    froid
"""
ADJECTIVES = {row[0]: Adjective(row[0], tuple(row[1:])) for row in rows(_ADJECTIVES)}


def _adjectives(names: str) -> tuple[Adjective, ...]:
    return tuple(ADJECTIVES[name] for name in names.split())


# Which adjectives a kind of noun takes: in French before the noun, after it, and with *to be*.
BEFORE = {
    "person": _adjectives("old young beautiful small"),
    "child": _adjectives("small beautiful"),
    "kin": _adjectives("old young"),
    "animal": _adjectives("small big old beautiful"),
    "food": _adjectives("small big good beautiful"),
    "mass": _adjectives("good"),
    "text": _adjectives("new old good beautiful"),
    "goods": _adjectives("small big new old beautiful"),
    "opening": _adjectives("small big old new"),
    "support": _adjectives("small big old new"),
    "place": _adjectives("small big old new beautiful"),
}
AFTER = {
    "person": _adjectives("rich kind sick sad happy tired"),
    "child": _adjectives("kind sick sad happy tired"),
    "kin": _adjectives("sick kind rich"),
    "animal": _adjectives("black white tired"),
    "food": _adjectives("cold expensive"),
    "mass": _adjectives("cold expensive"),
    "text": (),
    "goods": _adjectives("red green blue black white heavy expensive"),
    "opening": _adjectives("red green blue white"),
    "support": (),
    "place": (),
}
COLORS = frozenset(("red", "green", "blue", "black", "white"))
SOMEBODY = frozenset(("person", "child", "kin"))  # the kinds of noun that are people
BEING = {
    "person": _adjectives("rich kind sick sad happy tired old young"),
    "child": _adjectives("kind sick sad happy tired"),
    "kin": _adjectives("rich kind sick sad happy tired old young"),
    "animal": _adjectives("sick tired small big old beautiful"),
    "food": _adjectives("cold good expensive"),
    "mass": _adjectives("cold good expensive"),
    "text": _adjectives("new old beautiful"),
    "goods": _adjectives("new old small big heavy expensive beautiful red green blue black white"),
    "opening": _adjectives("new old small big red green blue white"),
}

# Subject, object; French subject, direct object, indirect object; person, gender, plural.
PRONOUNS = {he: Pronoun(he, him, il, le, lui, int(person), gender, number == "plural")
            for he, him, il, le, lui, person, gender, number in rows("""
    i     me    je    me    me    0  m  singular
    he    him   il    le    lui   1  m  singular
    she   her   elle  la    lui   1  f  singular
    we    us    nous  nous  nous  2  m  plural
    they  them  ils   les   leur  3  m  plural
    who   -     qui   -     -     1  m  singular
""")}
IT = {gender: Pronoun("", "it", "", form, "", 1, gender, False) for gender, form in (("m", "le"), ("f", "la"))}

PREPOSITIONS = {english: Preposition(english, tuple(french.split())) for english, french in (
    ("in", "dans"), ("on", "sur"), ("under", "sous"), ("in front of", "devant"), ("behind", "derrière"),
    ("near", "près de"), ("to", "à"), ("at", "à"), ("with", "avec"), ("without", "sans"),
)}
TIMES = {" ".join(time.english): time for time in (
    phrase("yesterday", "hier", "0-0"),
    phrase("this morning", "ce matin", "0-0 1-1"),
    phrase("this evening", "ce soir", "0-0 1-1"),
    phrase("today", "aujourd' hui", "0-0 0-1"),
    phrase("tomorrow", "demain", "0-0"),
    phrase("every day", "tous les jours", "0-0 0-1 1-2"),
)}
CONNECTORS = {connector.english[0]: connector for connector in (
    phrase("and", "et", "0-0"),
    phrase("but", "mais", "0-0"),
    phrase("because", "parce que", "0-0 0-1"),
    phrase("when", "quand", "0-0"),
    phrase("while", "pendant que", "0-0 0-1"),
)}
WEATHER = {" ".join(weather.english): weather for weather in (
    phrase("it is raining", "il pleut", "0-0 1-1 2-1"),
    phrase("it is snowing", "il neige", "0-0 1-1 2-1"),
    phrase("it is cold", "il fait froid", "0-0 1-1 2-2"),
    phrase("it is late", "il est tard", "0-0 1-1 2-2"),
)}
# Feelings that English expresses with *be* and French with *avoir*, then those with *être*.
FEELINGS = {feeling.english[0]: feeling for feeling in (
    phrase("hungry", "faim", "0-0"), phrase("thirsty", "soif", "0-0"), phrase("afraid", "peur", "0-0"),
)}
MOODS = {mood.english[0]: mood for mood in (
    phrase("angry", "en colère", "0-0 0-1"), phrase("late", "en retard", "0-0 0-1"),
)}
ADVERBS = {adverb.english[0]: adverb for adverb in (
    phrase("often", "souvent", "0-0"), phrase("always", "toujours", "0-0"),
)}
