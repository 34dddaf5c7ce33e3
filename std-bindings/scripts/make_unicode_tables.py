"""Writes core/src/tokenize/unicode_tables.rs: what BERT's normaliser does to each character.

The tables must agree with the `tokenizers` library, whose own data are of several
older Unicode versions, so its behaviour is recorded here character by character
instead of being derived from the Unicode files of this day.

    pip install tokenizers==0.22.2
    python3 make_unicode_tables.py > ../../core/src/tokenize/unicode_tables.rs
"""

import unicodedata

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

clean = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
strip = BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
split = BertPreTokenizer()

# Numbers to a line: the file is generated, so that it be short matters more than that it be narrow.
WIDE = 14
SCALARS = [chr(n) for n in range(0x110000) if not 0xD800 <= n < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)
# Two marks that are never stripped: of a low and of a high combining class.
LOW, HIGH = "\u1b44", "\U0001d165"
assert strip.normalize_str(HIGH + LOW) == LOW + HIGH


def reorders(c):
    """Whether the oracle sorts `c`, a mark that it keeps, by its combining class."""
    if unicodedata.combining(c) > unicodedata.combining(LOW):
        return strip.normalize_str(c + LOW) == LOW + c
    return strip.normalize_str(HIGH + c) == c + HIGH


removed = [c for c in SCALARS if clean.normalize_str(c) == ""]
stripped = {c: strip.normalize_str(c) for c in SCALARS}
marks = [c for c in SCALARS if stripped[c] == ""]
# A mark without a combining class keeps its neighbours from being sorted across it.
barriers = [c for c in marks if strip.normalize_str(HIGH + c + LOW) != LOW + HIGH]
marks = sorted(set(marks) - set(barriers))
classes = [c for c in SCALARS if stripped[c] == c and unicodedata.combining(c) and reorders(c)]
single = {c: s for c, s in stripped.items() if len(s) == 1 and s != c}
several = {c: s for c, s in stripped.items() if len(s) > 1 and ord(c) not in HANGUL}
assert max(map(len, several.values())) <= 3
punctuation = [
    c for c in SCALARS
    if not c.isascii() and not c.isspace() and len(split.pre_tokenize_str("a" + c + "a")) == 3
]


def lines(numbers, indent):
    words = [f"0x{n:08x}," for n in numbers]
    return "\n".join(" " * indent + " ".join(words[i:i + WIDE]) for i in range(0, len(words), WIDE))


def by_plane(name, doc, chars):
    """Ranges of characters: for each plane, first << 16 | last."""
    planes = {}
    for n in map(ord, chars):
        ranges = planes.setdefault(n >> 16, [])
        low = n & 0xFFFF
        if ranges and ranges[-1][1] + 1 == low:
            ranges[-1][1] = low
        else:
            ranges.append([low, low])
    print(f"\n/// {doc}\npub(super) const {name}: &[(u32, &[u32])] = &[")
    for plane, ranges in planes.items():
        print(f"    ({plane}, &[\n{lines([a << 16 | b for a, b in ranges], 8)}\n    ]),")
    print("];")


print("""//! What BERT's normaliser does to each character, in sorted tables.
//!
//! Written by std-bindings/scripts/make_unicode_tables.py: change that, not this.
//! Ranges and pairs are kept per Unicode plane, two 16-bit halves to a number.""")
by_plane("REMOVED", "Characters that cleaning removes: (plane, [first << 16 | last]).", removed)
by_plane("MARKS", "Accents: marks that vanish and have a combining class.", marks)
by_plane("BARRIERS", "Marks that vanish, but across which other marks are not sorted.", barriers)
by_plane("PUNCTUATION", "Punctuation outside ASCII.", punctuation)

planes = {}
for c, s in single.items():
    planes.setdefault((ord(c) >> 16, ord(s) >> 16), []).append((ord(c) & 0xFFFF) << 16 | ord(s) & 0xFFFF)
print("\n/// What is left of a character without its accents: (plane, plane of the result, [from << 16 | to]).")
print("pub(super) const BASES: &[(u32, u32, &[u32])] = &[")
for (a, b), pairs in sorted(planes.items()):
    print(f"    ({a}, {b}, &[\n{lines(pairs, 8)}\n    ]),")
print("];")

print("\n/// Characters that fall into several; the unused places hold NUL.")
print("pub(super) const SEVERAL: &[(char, [char; 3])] = &[")
escape = lambda c: f"'\\u{{{ord(c):x}}}'"
rows = [f"({escape(c)}, [{', '.join(map(escape, s.ljust(3, chr(0))))}])," for c, s in several.items()]
for i in range(0, len(rows), 3):
    print("   ", *rows[i:i + 3])
print("];")

print("\n/// Marks that stay, to be sorted by their combining class: character << 8 | class.")
print(f"pub(super) const CLASSES: &[u32] = &[\n{lines([ord(c) << 8 | unicodedata.combining(c) for c in classes], 4)}\n];")
