"""The language of reward texts: its words, and a parser by recursive descent. Nothing is ever run.

    either  = both ("or" both)*            sum     = product (("+" | "-") product)*
    both    = denied ("and" denied)*       product = signed (("*" | "/") signed)*
    denied  = "not" denied | compared      signed  = ("-" | "+") signed | power
    compared = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?
    power   = atom ("**" signed)?
    atom    = number | name | function "(" either ("," either)* ")" | "(" either ")"

All values are float64; a comparison is 1 or 0; 0 is false. A text becomes a tree of tuples, whose
evaluation (`rewards.values`) knows numbers, columns and the functions below, and nothing else.
"""

import difflib
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from zsrl_jax.errors import DataError

MAX_LENGTH = 300  # characters of a text
MAX_DEPTH = 40  # levels of brackets, calls and signs inside of each other
FUNCTIONS = {  # and how many values each takes
    "abs": 1, "sqrt": 1, "exp": 1, "log": 1, "sin": 1, "cos": 1, "tanh": 1, "sign": 1,
    "min": 2, "max": 2, "clip": 3, "where": 3, "gaussian": 3, "linear": 4,
}  # fmt: skip
WORDS = ("and", "or", "not")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>\*\*|<=|>=|==|!=|[-+*/<>(),])"
)
Tree = tuple[Any, ...]  # ("number", x), ("name", n), ("call", f, trees), (sign, tree, tree)


class RewardTextError(DataError):
    """A reward text is wrong: what, and at which character (counted from 0)."""

    def __init__(self, told: str, text: str, place: int):
        super().__init__(f"reward text, character {place + 1}: {told}")
        self.told, self.text, self.place = told, text, place
        self.add_note(f"    {text}\n    {' ' * place}^")  # shown below the message


class Token(NamedTuple):
    """A word of a text and where it starts."""

    kind: str  # number, name, sign or end
    text: str
    place: int


def parse(text: str, names: Collection[str]) -> Tree:
    """Return the tree of a reward text over these names; say where and what is wrong with it."""
    if len(text) > MAX_LENGTH:
        told = f"the text has {len(text)} characters: expected at most {MAX_LENGTH}"
        raise RewardTextError(told, text[:MAX_LENGTH], MAX_LENGTH)
    parser = _Parser(text, _tokens(text), names)
    tree = parser.either()
    if (left := parser.seen).kind != "end":
        raise parser.wrong(_unexpected(left))
    return tree


def _tokens(text: str) -> list[Token]:
    """Split a text into numbers, names and signs."""
    found, place = [], 0
    while place < len(text):
        if text[place] in " \t\n\r":
            place += 1
            continue
        match = TOKEN.match(text, place)
        if match is None:
            raise RewardTextError(f"{_shown(text[place])} is no part of a reward", text, place)
        kind, word = str(match.lastgroup), match[0]
        if kind == "number" and text[match.end() : match.end() + 1].isidentifier():
            after = _shown(text[match.end()])
            raise RewardTextError(f"a number runs into {after}", text, match.end())
        found.append(Token(kind, word, place))
        place = match.end()
    return [*found, Token("end", "", len(text))]


class _Parser:
    """A walk through the tokens; each method reads one rule of the grammar."""

    def __init__(self, text: str, tokens: list[Token], names: Collection[str]):
        self.text, self.tokens, self.names = text, tokens, names
        self.at, self.depth = 0, 0

    @property
    def seen(self) -> Token:
        return self.tokens[self.at]

    def wrong(self, told: str, token: Token | None = None) -> RewardTextError:
        return RewardTextError(told, self.text, (token or self.seen).place)

    def take(self, *words: str) -> str | None:
        """Step over the next token if it is one of these words."""
        if self.seen.kind in ("sign", "name") and self.seen.text in words:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.wrong(f"expected '{word}' here, found {_found(self.seen)}")

    def either(self) -> Tree:
        tree = self.both()
        while self.take("or"):
            tree = ("or", tree, self.both())
        return tree

    def both(self) -> Tree:
        tree = self.denied()
        while self.take("and"):
            tree = ("and", tree, self.denied())
        return tree

    def denied(self) -> Tree:
        if self.take("not"):
            return ("not", self.deeper(self.denied))
        return self.compared()

    def compared(self) -> Tree:
        tree = self.sum()
        if sign := self.take(*COMPARISONS):
            tree = (sign, tree, self.sum())
            if self.seen.text in COMPARISONS:
                raise self.wrong("comparisons do not chain: write (a < b) and (b < c)")
        return tree

    def sum(self) -> Tree:
        tree = self.product()
        while sign := self.take("+", "-"):
            tree = (sign, tree, self.product())
        return tree

    def product(self) -> Tree:
        tree = self.signed()
        while sign := self.take("*", "/"):
            tree = (sign, tree, self.signed())
        return tree

    def signed(self) -> Tree:
        if sign := self.take("-", "+"):
            tree = self.deeper(self.signed)
            return ("negative", tree) if sign == "-" else tree
        return self.power()

    def power(self) -> Tree:
        tree = self.atom()
        if self.take("**"):
            return ("**", tree, self.deeper(self.signed))
        return tree

    def atom(self) -> Tree:
        token = self.seen
        if self.take("("):
            tree = self.deeper(self.either)
            self.expect(")")
            return tree
        if token.kind == "number":
            self.at += 1
            if (value := float(token.text)) == float("inf"):
                raise self.wrong(f"the number {token.text} is too large", token)
            return ("number", value)
        if token.kind == "name" and token.text not in WORDS:
            self.at += 1
            return self.call(token) if token.text in FUNCTIONS else self.name(token)
        raise self.wrong(_unexpected(token))

    def name(self, token: Token) -> Tree:
        if token.text in self.names:
            return ("name", token.text)
        if self.seen.text == "(":
            known, kind = list(FUNCTIONS), "function"
        else:
            known, kind = list(self.names), "quantity"
        near = difflib.get_close_matches(token.text, known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        told = f"unknown {kind} '{token.text}': {hint}known: {', '.join(known)}"
        raise self.wrong(told, token)

    def call(self, token: Token) -> Tree:
        self.expect("(")
        given = [self.deeper(self.either)]
        while self.take(","):
            given.append(self.deeper(self.either))
        self.expect(")")
        if len(given) != (wanted := FUNCTIONS[token.text]):
            told = f"'{token.text}' takes {wanted} value(s), found {len(given)}"
            raise self.wrong(told, token)
        return ("call", token.text, tuple(given))

    def deeper(self, rule: Any) -> Tree:
        """Read a rule one level further in."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong(f"more than {MAX_DEPTH} levels inside of each other")
        tree: Tree = rule()
        self.depth -= 1
        return tree


def _found(token: Token) -> str:
    return "the end" if token.kind == "end" else f"'{token.text}'"


def _unexpected(token: Token) -> str:
    if token.kind == "end":
        return "the text ends here: expected a number, a quantity or a function"
    return f"did not expect '{token.text}' here"


def _shown(character: str) -> str:
    """Return a character as it can be read: those that cannot be seen by their number."""
    seen = " " < character <= "~"
    return f"'{character}'" if seen else f"the character U+{ord(character):04X}"
