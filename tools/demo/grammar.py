"""The grammar of the `demo` task: one family of templates a phenomenon.

A family gives minimal pairs. Its variants take turns so that a word of the closed classes (`is`,
`himself`, `what`) and a form (`repaired`, `lamps`) stand about as often in acceptable as in
unacceptable sentences: no word betrays the label, only its place in the sentence does.
"""

from collections.abc import Callable, Mapping

from tools.demo.words import Draw, gerund, past, plural


def _agreement(draw: Draw) -> tuple[str, str]:
    subject, other = draw.two("person")
    quality = draw.one("quality")
    right, wrong = draw.turned("is", "are")
    subject = subject if right == "is" else plural(subject)
    middle, end = (
        (f"near the {draw.number(draw.one('place'))}", quality),
        (f"that the {draw.number(other)} {past(draw.one('treat'))}", f"very {quality}"),
        (f"behind the {draw.number(other)}", gerund(draw.one("act"))),
    )[draw.turn // 2 % 3]
    return f"the {subject} {middle} {right} {end}", f"the {subject} {middle} {wrong} {end}"


def _reflexive(draw: Draw) -> tuple[str, str]:
    near, far = (draw.one(kind) for kind in draw.turned("man", "woman"))
    right, wrong = draw.turned("himself", "herself")
    verb, variant = past(draw.one("treat")), draw.turn // 2 % 3
    if variant == 0:
        start = f"the {far} {draw.one('claim')} that the {near} {verb}"
    elif variant == 1:
        start = f"the {near} that the {far} {past(draw.one('treat'))} {verb}"
    else:
        right, wrong = draw.turned(right, "themselves", every=6)
        near = near if wrong == "themselves" else plural(near)
        start = f"the {near} near the {draw.one('place')} {verb}"
    return f"{start} {right}", f"{start} {wrong}"


def _determiner(draw: Draw) -> tuple[str, str]:
    singular, several = (("this", "these"), ("that", "those"), ("each", "several"))[
        draw.turn // 2 % 3
    ]
    right, wrong = draw.turned(singular, several)
    thing = draw.one("thing") if right == singular else plural(draw.one("thing"))
    start = f"the {draw.number(draw.one('person'))} {past(draw.one('handle'))}"
    look = draw.one("look")
    return f"{start} {right} {look} {thing}", f"{start} {wrong} {look} {thing}"


def _polarity(draw: Draw) -> tuple[str, str]:
    first, second = draw.two("person")
    act, thing = draw.one("act"), plural(draw.one("thing"))
    if draw.turn % 2:
        handle = draw.one("handle")
        return (
            f"the {first} that {past(act)} did not {handle} any {thing}",
            f"the {first} that did not {act} {past(handle)} any {thing}",
        )
    middle, end = f"{plural(second)} {past(draw.one('treat'))}", f"has ever {past(act)}"
    return (
        f"no {first} that the {middle} {end}",
        f"the {first} that no {middle} {end}",
    )


def _article_order(draw: Draw) -> tuple[str, str]:
    person, verb = draw.number(draw.one("person")), past(draw.one("handle"))
    thing, place = draw.number(draw.one("thing")), f"near the {draw.one('place')}"
    right = f"the {person} {verb} the {thing} {place}"
    if draw.turn % 2:
        return right, f"the {person} {verb} {thing} the {place}"
    return right, f"{person} the {verb} the {thing} {place}"


def _adjective_order(draw: Draw) -> tuple[str, str]:
    person, quality = draw.number(draw.one("person")), draw.one("quality")
    thing, look = draw.number(draw.one("thing")), draw.one("look")
    verb = past(draw.one("handle"))
    if draw.turn % 2:
        start = f"the {person} {verb} the"
        return f"{start} {look} {thing}", f"{start} {thing} {look}"
    end = f"{verb} the {thing}"
    return f"the {quality} {person} {end}", f"the {person} {quality} {end}"


def _object_order(draw: Draw) -> tuple[str, str]:
    person, thing = f"the {draw.number(draw.one('person'))}", f"the {draw.one('thing')}"
    verb, place = past(draw.one("handle")), f"near the {draw.one('place')}"
    wrong = (f"{person} {thing} {verb}", f"{verb} {person} {thing}")[draw.turn % 2]
    return f"{person} {verb} {thing} {place}", f"{wrong} {place}"


def _adverb_order(draw: Draw) -> tuple[str, str]:
    person, manner = draw.number(draw.one("person")), draw.one("manner")
    verb, thing = past(draw.one("handle")), f"the {draw.number(draw.one('thing'))}"
    wrong = (f"the {person} {verb} {manner}", f"the {manner} {person} {verb}")[draw.turn % 2]
    return f"the {person} {manner} {verb} {thing}", f"{wrong} {thing}"


def _preposition_order(draw: Draw) -> tuple[str, str]:
    person, place = f"the {draw.number(draw.one('person'))}", draw.one("place")
    act = past(draw.one("act"))
    if draw.turn % 2:
        return f"{person} near the {place} {act}", f"{person} the {place} near {act}"
    return f"{person} {act} in the {place}", f"{person} {act} the in {place}"


def _filler_gap(draw: Draw) -> tuple[str, str]:
    person, other = draw.two("person")
    verb, thing = draw.one("handle"), f"the {draw.one('thing')}"
    place, know = f"near the {draw.one('place')}", draw.one("know")
    asked = f"did the {person} {verb}"
    clause = f"the {person} {past(verb)}"
    return (
        (f"what {asked} {place}?", f"what {asked} {thing} {place}?"),
        (f"{asked} {thing} {place}?", f"{asked} {place}?"),
        (f"the {other} {know} what {clause}", f"the {other} {know} that {clause}"),
        (f"the {other} {know} that {clause} {thing}", f"the {other} {know} what {clause} {thing}"),
    )[draw.turn % 4]


def _inversion(draw: Draw) -> tuple[str, str]:
    person, other = draw.two("person")
    aux, wh = ("was", "when") if draw.turn // 2 % 2 else ("is", "why")
    act = f"{gerund(draw.one('act'))} in the {draw.one('place')}"
    straight, inverted = f"{wh} the {person} {aux} {act}", f"{wh} {aux} the {person} {act}"
    if draw.turn % 2:
        return f"{inverted}?", f"{straight}?"
    start = f"the {other} {draw.one('know')}"
    return f"{start} {straight}", f"{start} {inverted}"


def _auxiliary(draw: Draw) -> tuple[str, str]:
    verb = draw.one("act")
    # Each form is right after one auxiliary and wrong after another.
    aux, right, wrong = (
        ("has", past(verb), verb),
        ("will", verb, gerund(verb)),
        ("is", gerund(verb), past(verb)),
        ("has", past(verb), gerund(verb)),
        ("will", verb, past(verb)),
        ("is", gerund(verb), verb),
    )[draw.turn % 6]
    start = f"the {draw.one('quality')} {draw.one('person')} {aux}"
    end = f"in the {draw.one('place')}"
    return f"{start} {right} {end}", f"{start} {wrong} {end}"


def _argument(draw: Draw) -> tuple[str, str]:
    person, place = draw.number(draw.one("person")), f"in the {draw.one('place')}"
    alone, needy = (f"the {person} {past(draw.one(kind))}" for kind in ("act", "handle"))
    thing = f"the {draw.one('thing')}"
    return (
        (f"{alone} {place}", f"{needy} {place}"),
        (f"{needy} {thing} {place}", f"{alone} {thing} {place}"),
    )[draw.turn % 2]


def _coordination(draw: Draw) -> tuple[str, str]:
    one, two = (f"the {person}" for person in draw.two("person"))
    first, second = draw.two("act")
    end = f"{past(first)} in the {draw.one('place')}"
    will, was = f"{one} will {first} and", f"{one} was {gerund(first)} and"
    return (
        (f"both {one} and {two} {end}", f"both {one} or {two} {end}"),
        (f"either {one} or {two} {end}", f"either {one} and {two} {end}"),
        (f"{will} {second}", f"{will} {gerund(second)}"),
        (f"{was} {gerund(second)}", f"{was} {second}"),
    )[draw.turn % 4]


def _comparative(draw: Draw) -> tuple[str, str]:
    one, two = draw.two("person")
    plain = draw.one("quality")
    right, wrong = draw.turned(f"{plain.removesuffix('e')}er", plain)
    start, end = (("", "than"), ("as ", "as"))[draw.turn % 2]
    middle = "near the " + draw.one("place")
    return (
        f"the {one} {middle} is {start}{right} {end} the {two}",
        f"the {one} {middle} is {start}{wrong} {end} the {two}",
    )


def _case(draw: Draw) -> tuple[str, str]:
    subject, other = (("he", "him"), ("she", "her"))[draw.turn // 2 % 2]
    place = f"near the {draw.one('place')}"
    if draw.turn % 2:
        end = f"{past(draw.one('handle'))} the {draw.one('thing')} {place}"
        return f"{subject} {end}", f"{other} {end}"
    start = f"the {draw.number(draw.one('person'))} {past(draw.one('treat'))}"
    return f"{start} {other} {place}", f"{start} {subject} {place}"


def _complement(draw: Draw) -> tuple[str, str]:
    act = draw.one("act")
    right, wrong = draw.turned(f"to {act}", gerund(act))
    verb = draw.one("enjoy" if draw.turn % 2 else "hope")
    start, end = f"{draw.one('name')} {verb}", f"near the {draw.one('place')}"
    return f"{start} {right} {end}", f"{start} {wrong} {end}"


PHENOMENA: Mapping[str, Callable[[Draw], tuple[str, str]]] = {
    "article order": _article_order,
    "adjective order": _adjective_order,
    "object order": _object_order,
    "adverb order": _adverb_order,
    "preposition order": _preposition_order,
    "inversion": _inversion,
    "filler-gap": _filler_gap,
    "polarity": _polarity,
    "agreement": _agreement,
    "reflexive": _reflexive,
    "determiner": _determiner,
    "comparative": _comparative,
    "auxiliary": _auxiliary,
    "argument": _argument,
    "coordination": _coordination,
    "case": _case,
    "complement": _complement,
}
