// The language of reward texts, as zsrl_jax/rewards/language.py has it: one grammar, two
// implementations, one table of cases. A text becomes a tree of arrays; nothing is ever run.

export const MAX_LENGTH = 300; // characters of a text
export const MAX_DEPTH = 40; // levels of brackets, calls and signs inside of each other

export const FUNCTIONS = new Map([ // and how many values each takes
  ["abs", 1], ["sqrt", 1], ["exp", 1], ["log", 1], ["sin", 1], ["cos", 1], ["tanh", 1],
  ["sign", 1], ["min", 2], ["max", 2], ["clip", 3], ["where", 3], ["gaussian", 3], ["linear", 4],
]);
const WORDS = ["and", "or", "not"];
const COMPARISONS = ["<", "<=", ">", ">=", "==", "!="];
const TOKEN = new RegExp(
  "(?<number>(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)" +
  "|(?<name>[A-Za-z_][A-Za-z_0-9]*)|(?<sign>\\*\\*|<=|>=|==|!=|[-+*/<>(),])", "y");

// A text is wrong: what, and at which character (counted from 0).
export class RewardTextError extends Error {
  constructor(told, place) {
    super(told);
    this.place = place;
  }
}

const characters = (text) => Array.from(text); // by code point, as Python counts
const isLetter = (c) => c !== undefined && /^[\p{ID_Start}_]$/u.test(c);

function shown(character) {
  const code = character.codePointAt(0);
  const hex = code.toString(16).toUpperCase().padStart(4, "0");
  return character > " " && character <= "~" ? `'${character}'` : `the character U+${hex}`;
}

function tokens(text) {
  const found = [];
  let place = 0;
  while (place < text.length) {
    if (" \t\n\r".includes(text[place])) { place += 1; continue; }
    TOKEN.lastIndex = place;
    const match = TOKEN.exec(text);
    const at = characters(text.slice(0, place)).length;
    if (match === null) {
      const first = String.fromCodePoint(text.codePointAt(place));
      throw new RewardTextError(`${shown(first)} is no part of a reward`, at);
    }
    const kind = ["number", "name", "sign"].find((k) => match.groups[k] !== undefined);
    const end = place + match[0].length;
    const next = end < text.length ? String.fromCodePoint(text.codePointAt(end)) : undefined;
    if (kind === "number" && isLetter(next)) {
      throw new RewardTextError(`a number runs into ${shown(next)}`, at + match[0].length);
    }
    found.push({ kind, text: match[0], place: at });
    place = end;
  }
  found.push({ kind: "end", text: "", place: characters(text).length });
  return found;
}

// Return the tree of a reward text over these names; say where and what is wrong with it.
export function parse(text, names) {
  const length = characters(text).length;
  if (length > MAX_LENGTH) {
    throw new RewardTextError(
      `the text has ${length} characters: expected at most ${MAX_LENGTH}`, MAX_LENGTH);
  }
  const parser = new Parser(tokens(text), names);
  const tree = parser.either();
  if (parser.seen.kind !== "end") throw parser.wrong(unexpected(parser.seen));
  return tree;
}

class Parser {
  constructor(list, names) {
    this.list = list;
    this.names = names;
    this.at = 0;
    this.depth = 0;
  }

  get seen() { return this.list[this.at]; }

  wrong(told, token = this.seen) { return new RewardTextError(told, token.place); }

  take(...words) {
    if ((this.seen.kind === "sign" || this.seen.kind === "name") && words.includes(this.seen.text)) {
      this.at += 1;
      return this.list[this.at - 1].text;
    }
    return null;
  }

  expect(word) {
    const found = this.seen.kind === "end" ? "the end" : `'${this.seen.text}'`;
    if (!this.take(word)) throw this.wrong(`expected '${word}' here, found ${found}`);
  }

  either() {
    let tree = this.both();
    while (this.take("or")) tree = ["or", tree, this.both()];
    return tree;
  }

  both() {
    let tree = this.denied();
    while (this.take("and")) tree = ["and", tree, this.denied()];
    return tree;
  }

  denied() {
    return this.take("not") ? ["not", this.deeper(() => this.denied())] : this.compared();
  }

  compared() {
    let tree = this.sum();
    const sign = this.take(...COMPARISONS);
    if (sign) {
      tree = [sign, tree, this.sum()];
      if (COMPARISONS.includes(this.seen.text)) {
        throw this.wrong("comparisons do not chain: write (a < b) and (b < c)");
      }
    }
    return tree;
  }

  sum() {
    let tree = this.product();
    for (let sign; (sign = this.take("+", "-")); ) tree = [sign, tree, this.product()];
    return tree;
  }

  product() {
    let tree = this.signed();
    for (let sign; (sign = this.take("*", "/")); ) tree = [sign, tree, this.signed()];
    return tree;
  }

  signed() {
    const sign = this.take("-", "+");
    if (!sign) return this.power();
    const tree = this.deeper(() => this.signed());
    return sign === "-" ? ["negative", tree] : tree;
  }

  power() {
    const tree = this.atom();
    return this.take("**") ? ["**", tree, this.deeper(() => this.signed())] : tree;
  }

  atom() {
    const token = this.seen;
    if (this.take("(")) {
      const tree = this.deeper(() => this.either());
      this.expect(")");
      return tree;
    }
    if (token.kind === "number") {
      this.at += 1;
      const value = Number(token.text);
      if (value === Infinity) throw this.wrong(`the number ${token.text} is too large`, token);
      return ["number", value];
    }
    if (token.kind === "name" && !WORDS.includes(token.text)) {
      this.at += 1;
      return FUNCTIONS.has(token.text) ? this.call(token) : this.name(token);
    }
    throw this.wrong(unexpected(token));
  }

  name(token) {
    if (this.names.includes(token.text)) return ["name", token.text];
    const isCall = this.seen.text === "(";
    const known = isCall ? [...FUNCTIONS.keys()] : this.names, near = nearest(token.text, known);
    const kind = isCall ? "function" : "quantity", hint = near ? `did you mean '${near}'? ` : "";
    throw this.wrong(`unknown ${kind} '${token.text}': ${hint}known: ${known.join(", ")}`, token);
  }

  call(token) {
    this.expect("(");
    const given = [this.deeper(() => this.either())];
    while (this.take(",")) given.push(this.deeper(() => this.either()));
    this.expect(")");
    const wanted = FUNCTIONS.get(token.text);
    if (given.length !== wanted) {
      throw this.wrong(`'${token.text}' takes ${wanted} value(s), found ${given.length}`, token);
    }
    return ["call", token.text, given];
  }

  deeper(rule) {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) {
      throw this.wrong(`more than ${MAX_DEPTH} levels inside of each other`);
    }
    const tree = rule();
    this.depth -= 1;
    return tree;
  }
}

function unexpected(token) {
  if (token.kind === "end") {
    return "the text ends here: expected a number, a quantity or a function";
  }
  return `did not expect '${token.text}' here`;
}

// Return the known word that takes the fewest changes of letters, if few are enough.
function nearest(word, known) {
  const changes = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) {
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
      }
      row = next;
    }
    return row[b.length];
  };
  const counts = known.map((name) => changes(word.slice(0, 40), name));
  const best = Math.min(...counts);
  return best <= Math.max(1, word.length / 3) ? known[counts.indexOf(best)] : null;
}

// C's pow, which numpy has: 1 to any power is 1, and so is -1 to an infinite one.
function power(a, b) {
  if (a === 1 || (a === -1 && Math.abs(b) === Infinity)) return 1;
  return a ** b;
}

const clip = (x, low, high) => Math.min(high, Math.max(low, x));
const CALLS = new Map(Object.entries({
  abs: Math.abs, sqrt: Math.sqrt, exp: Math.exp, log: Math.log, sin: Math.sin, cos: Math.cos,
  tanh: Math.tanh, sign: Math.sign, min: Math.min, max: Math.max, clip,
  where: (condition, yes, no) => (condition !== 0 ? yes : no),
  gaussian: (x, low, margin) => power(0.1, (Math.max(low - x, 0) / margin) ** 2),
  linear: (x, low, margin, value) => clip(1 - (1 - value) * (low - x) / margin, 0, 1),
}));
const SIGNS = new Map(Object.entries({
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
  "**": power, "<": (a, b) => +(a < b), "<=": (a, b) => +(a <= b), ">": (a, b) => +(a > b),
  ">=": (a, b) => +(a >= b), "==": (a, b) => +(a === b), "!=": (a, b) => +(a !== b),
  negative: (a) => -a, and: (a, b) => +(a !== 0 && b !== 0), or: (a, b) => +(a !== 0 || b !== 0),
  not: (a) => +(a === 0),
}));

// Return a tree's value at one state; `get(name)` gives a quantity there.
export function valueAt(tree, get) {
  const [kind, first, second] = tree;
  if (kind === "number") return first;
  if (kind === "name") return get(first);
  if (kind === "call") return CALLS.get(first)(...second.map((part) => valueAt(part, get)));
  const sign = SIGNS.get(kind);
  return second === undefined ? sign(valueAt(first, get)) : sign(valueAt(first, get), valueAt(second, get));
}

// Return a tree's values at all states, or refuse them; `columns` maps names to arrays.
export function evaluate(tree, columns, count) {
  const found = new Float64Array(count);
  let bad = 0;
  for (let i = 0; i < count; i++) {
    found[i] = valueAt(tree, (name) => columns.get(name)[i]);
    if (!Number.isFinite(found[i])) bad += 1;
  }
  if (bad) {
    throw new Error(`the reward is not finite in ${bad} of ${count} states: expected a number in ` +
      "each (no division by 0, no root or log of a negative number, no huge power)");
  }
  return found;
}

// Return the names of the quantities that a tree reads.
export function namesIn(tree) {
  const [kind, first, second] = tree;
  if (kind === "number") return [];
  if (kind === "name") return [first];
  if (kind === "call") return second.flatMap(namesIn);
  return second === undefined ? namesIn(first) : [...namesIn(first), ...namesIn(second)];
}
