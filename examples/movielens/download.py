# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.movielens.download DIR`: the files of MovieLens 100K, from a Python package.

RecBole, a library of recommender models under the MIT licence, carries the data set in its package,
in files of its own form. They are written in the data set's form. The data set's own terms of use
(GroupLens Research, University of Minnesota) allow research, and neither redistribution nor
commercial use without permission.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

from examples.movielens import reader

PACKAGE = "recbole==1.2.1"
_INSIDE = "recbole/dataset_example/ml-100k/ml-100k"


def fetch(folder):
    """Writes u.data, u.user and u.item, unless they are there; raises OSError or ValueError."""
    names = (reader.RATINGS_FILE, reader.USERS_FILE, reader.ITEMS_FILE)
    if all((folder / name).exists() for name in names):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, converted(*_packaged())):
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_text(text, encoding="latin-1")
        unfinished.rename(folder / name)


def converted(ratings, users, items):
    """The texts of u.data, u.user and u.item from those of RecBole's files."""
    ratings, users, items = map(_records, (ratings, users, items))
    genres = sorted({genre for _, _, _, kinds in items for genre in kinds.split()})
    if len(genres) > reader.NUM_GENRES:
        raise ValueError(f"{PACKAGE} has {len(genres)} genres, more than {reader.NUM_GENRES}")
    lines = []
    for number, title, year, kinds in items:
        flags = [str(int(genre in kinds.split())) for genre in genres]
        flags += ["0"] * (reader.NUM_GENRES - len(genres))
        date = f"01-Jan-{year}" if year.isdecimal() else ""  # one film has no date
        lines.append("|".join([number, title.replace("|", " "), date, "", "", *flags]))
    return (
        "".join("\t".join(each) + "\n" for each in ratings),
        "".join("|".join(each) + "\n" for each in users),
        "".join(f"{line}\n" for line in lines),
    )


def _records(text):
    """The fields of each line below the heading."""
    return [line.split("\t") for line in text.splitlines()[1:]]


def _packaged():
    """The texts of RecBole's ratings, users and items."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        if subprocess.run([*pip, PACKAGE]).returncode != 0:
            raise OSError(f"pip could not download {PACKAGE}; give the folder of ml-100k instead")
        (archive,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(archive) as package:
            names = [f"{_INSIDE}.{kind}" for kind in ("inter", "user", "item")]
            return [package.read(name).decode("latin-1") for name in names]


if __name__ == "__main__":
    fetch(pathlib.Path(sys.argv[1]))
    print(f"MovieLens 100K from {PACKAGE}; its terms: research, no redistribution.")
