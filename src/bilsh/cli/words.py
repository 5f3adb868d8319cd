"""The library speaks of its functions and parameters; here its messages get the words of the command line."""

from __future__ import annotations

import re

WORDS = {
    "Make one with Store.create.": "Make one with `bilsh encode`.",
    "See Store.versions and Store.repair for earlier versions.": "See `bilsh repair`.",
    "See Store.versions and Store.repair.": "See `bilsh repair`.",
    "open it with Store.open": "add to it with `bilsh add`",
    "Store.create needs a new or empty directory.": "Choose a new or empty directory.",
    "Close it there first, or open the store with mode='r' to read beside it.": "Wait until it is done, or stop it.",
}
PATTERNS = {
    r"Pass codes, or say that bits are signs of values: bits='sign'": "Ask with codes, or import with --meaning sign",
    r"\bUse upsert to": "Use --upsert to",
    r"\bleave mode at\b": "leave --mode at",
    r" is not here \(1 of 1 are not\)": " is not in the store",
    r" is not here \(": " is not in the store (",
    r" of the (\d+) ids of `where` are not here": r" of the \1 ids of --where are not in the store",
    r"\bchoose by key among\b": "choose with --key among",
    r"Choose columns by key \(a,b,c\), or name the column of ids\.": "Choose columns with --key a,b,c, or name the "
    "column of ids with --id-column.",
    r"\bkey=": "--key ",
    r"\bn_jobs\b": "--jobs",
    r"\bkeep_vectors=(?:'\w+')?": "--keep-vectors",
    r"\brerank=True\b": "--rerank",
    r"\bn_bits\b": "--bits",
}


def for_users(text: str) -> str:
    """Put a message into the words of the command line.

    >>> for_users("there is no store at x. Make one with Store.create.")
    'there is no store at x. Make one with `bilsh encode`.'
    """
    for words, ours in WORDS.items():
        text = text.replace(words, ours)
    for pattern, ours in PATTERNS.items():
        text = re.sub(pattern, ours, text)
    return text
