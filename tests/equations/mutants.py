r"""The ways of getting one thing wrong in a relation of latex.py.

Each has a name, and comes with the tokens of the wrong relation.
"""


def mutants(relation):
    """(name, tokens) of every planted error; the name quotes the place in the original."""
    tokens, spans = relation.tokens, relation.spans
    for plant in (
        signs,
        indices,
        transposed,
        numbers,
        powers,
        dropped,
        fractions,
        roots,
        eps_moved,
    ):
        for what, start, end, replacement in plant(tokens, spans):
            place = "".join(tokens[max(start - 4, 0) : end + 3])
            yield f"{what}: {place}", [*tokens[:start], *replacement, *tokens[end:]]


def signs(tokens, spans):
    for k, token in enumerate(tokens):
        if token in "+-":
            yield "sign", k, k + 1, ["-" if token == "+" else "+"]


def indices(tokens, spans):
    places = [
        k for start, end in spans["indices"] for k in range(start, end) if tokens[k].isalpha()
    ]
    letters = sorted({tokens[k] for k in places})
    for k in places:
        for letter in letters:
            if letter != tokens[k]:
                yield f"{letter} for {tokens[k]}", k, k + 1, [letter]


def transposed(tokens, spans):
    for start, end in spans["indices"]:
        for k in range(start + 1, end - 1):
            if tokens[k] == "," and tokens[k - 1] != tokens[k + 1]:
                yield "transposed", k - 1, k + 2, tokens[k - 1 : k + 2][::-1]


def numbers(tokens, spans):
    for k, token in enumerate(tokens):
        if token.isdigit():
            yield f"{int(token) + 1} for {token}", k, k + 1, [str(int(token) + 1)]


def powers(tokens, spans):
    for start, end in spans["power"]:
        yield "no power", start, end, []


def dropped(tokens, spans):
    for kind in ("term", "factor"):
        for start, end in spans[kind]:
            if tokens[end : end + 1] != ["/"]:  # 3/2 without its 3 is no formula
                yield f"no {kind}", start, end, []


def fractions(tokens, spans):
    for start, middle, end in spans["fraction"]:
        yield "no denominator", start, end, bracketed(tokens[start + 2 : middle - 1])


def roots(tokens, spans):
    for start, end in spans["root"]:
        yield "no root", start, end, bracketed(tokens[start + 2 : end - 1])


def eps_moved(tokens, spans):
    for start, end in spans["root"]:
        if tokens[end - 3 : end] == ["+", r"\varepsilon", "}"]:
            outside = [*tokens[start : end - 3], "}", "+", r"\varepsilon"]
            yield "eps out of the root", start, end, bracketed(outside)


def bracketed(tokens):
    return ["(", *tokens, ")"]
