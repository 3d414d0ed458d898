"""Documents in many scripts for tests of text features, and random ones."""

from __future__ import annotations

import numpy as np

MULTILINGUAL = [
    "Crème brûlée à la carte; Ünïcödé NAÏVE façade, ß ẞ straße STRASSE",
    "cafe\u0301 CAFE\u0301 re\u0301sume\u0301 n\u0303 e\u0301 x\u0301y",  # combining marks
    "ΟΔΥΣΣΕΥΣ Σίσυφος ΣΑΣ Σ ΑΣ. ΑΣ' ΑΣ'Α ΑΣ\u00adΑ ΑΣ\u0301 'Σ ΣΣ σς Ά.Σ. ͅΣ",  # final sigma in all places
    "Привет, мир! ЁЖИК подъезд щи «борщ» Ѳита",
    "مرحبا بالعالم، اللُّغَةُ العَرَبِيَّة ١٢٣ ﷺ",
    "中文分词 没有空格，日本語のテキスト ひらがな ｶﾀｶﾅ 한국어 \u1112\u1161\u11ab",
    "emoji 😀😃 👩‍👩‍👧 flag 🇩🇪 a😀b 1️⃣",
    "İstanbul IĞDIR ığdır iİıI DİYARBAKIR",
    "हिन्दी भाषा ไทย ภาษา עברית שָׁלוֹם ქართული Ქართული ԱՐԵՎ",
    "ﬁne ﬂow ǅ ǆ Ⅷ ⅷ ½ x² H₂O ªº µm Ⱥⱦ K Å ①② 𝐀𝐛 𐐀𐐨 𝟘",
    "under_score __init__ _ a_ _b foo_BAR 1_000 3.14 e-mail don't l'été x=y&z",
    "tabs\tand\nnewlines\r\n\x0bvertical\x0cform\x1cfs\x1d\x1e\x1f\x85nel\xa0nbsp\u2003em\u2028line\u3000wide \u200bzero",  # noqa: E501
    "NUL\x00inside\x00 ab\x00cd \x7f",
    "",
    " ",
    "a b c d",
    "   leading and trailing   ",
    "word " * 300,
    "supercalifragilisticexpialidocious supercalifragilisticexpialidociously supercalifragilistic",
    "abcdefg abcdefgh abcdefghi abcdefghijklmnop abcdefghijklmnopq abcdefgz abcdefgha",
    "e\u0301" * 50 + " " + "\u0130" * 40 + " " + "Σ" * 70,
    "x" * 63 + " " + "y" * 64 + " " + "z" * 65 + " " + "é" * 32 + " " + "a" * 61 + "é b",
]

#: Characters of random documents: letters, blanks and everything that has a rule of its own.
ALPHABET = [
    *"aabbccxyzABCXYZ019__  \t\n.'-:^`", *"éÉüßẞıİΣσςΑάЖжЁ中文の한ｶﾀ١½²ﬁǅ😀𐐀𝟘", "\u0301", "\u0345",
    "\u00ad", "\u200d", "\u3000",
    "\xa0", "\x85", "\x1c", "\x00", "\u2019", "\u1112\u1161\u11ab", "ﷺ", "ΑΣ", " ΑΣ ", "\u0130\u0307",
]  # fmt: skip


def random_documents(seed: int, n: int, most: int = 40) -> list[str]:
    """Random documents that are made of these characters."""
    rng = np.random.default_rng(seed)
    return ["".join(ALPHABET[i] for i in rng.integers(0, len(ALPHABET), rng.integers(0, most))) for _ in range(n)]
