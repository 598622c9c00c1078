# SPDX-License-Identifier: Apache-2.0
"""The files of MovieLens 100K as NumPy arrays. A line that does not fit is an error."""

import dataclasses
import pathlib

import numpy as np

RATINGS_FILE, USERS_FILE, ITEMS_FILE = "u.data", "u.user", "u.item"
NUM_GENRES = 19
RATINGS = range(1, 6)
GENDERS = {"M": 0, "F": 1}
NO_YEAR = 0  # of an item without a release date

_ITEM_FIELDS_BEFORE_GENRES = 5  # id, title, release date, video release date, address
_ENCODING = "latin-1"  # of titles; every byte is a character, so reading never fails on one


@dataclasses.dataclass(frozen=True)
class Ratings:
    """Who rated what, and how."""

    users: np.ndarray  # int64 [n], ids from 1
    items: np.ndarray  # int64 [n], ids from 1
    values: np.ndarray  # float32 [n], 1 to 5

    def __len__(self):
        return len(self.values)

    def take(self, places):
        """The ratings at `places`."""
        return Ratings(self.users[places], self.items[places], self.values[places])


@dataclasses.dataclass(frozen=True)
class User:
    """A line of u.user."""

    age: int  # years
    gender: int  # of GENDERS
    occupation: str


@dataclasses.dataclass(frozen=True)
class Item:
    """A line of u.item."""

    year: int  # of the release, or NO_YEAR
    genres: tuple  # their numbers, each below NUM_GENRES


def read_users(folder):
    """{id: User} of u.user.

    Raises:
      OSError: the file cannot be read.
      ValueError: a line is none of it; file, line number and field are named.
    """
    return _by_id(folder, USERS_FILE, _parse_user)


def read_items(folder):
    """{id: Item} of u.item; raises as read_users does."""
    return _by_id(folder, ITEMS_FILE, _parse_item)


def read_ratings(folder, name, users, items):
    """Ratings of a file, u.data or another of its form.

    Args:
      folder: where the files are.
      name: of the file.
      users: {id: User}; raters that are not in it are an error.
      items: {id: Item}; likewise.

    Raises:
      as read_users does.
    """
    rows = []
    for fields in _lines(folder, name, "\t", 4):
        user, item = fields.number(0, "user id"), fields.number(1, "item id")
        rating = fields.number(2, "rating")
        fields.number(3, "timestamp")
        if rating not in RATINGS:
            fields.fail("rating", rating, f"a number from {RATINGS[0]} to {RATINGS[-1]}")
        if user not in users:
            fields.fail("user id", user, f"one of {USERS_FILE}")
        if item not in items:
            fields.fail("item id", item, f"one of {ITEMS_FILE}")
        rows.append((user, item, rating))
    columns = np.array(rows, np.int64).T
    return Ratings(columns[0], columns[1], columns[2].astype(np.float32))


def _by_id(folder, name, parse):
    num_fields = _ITEM_FIELDS_BEFORE_GENRES + NUM_GENRES if name == ITEMS_FILE else 5
    records = {}
    for fields in _lines(folder, name, "|", num_fields):
        number = fields.number(0, "id")
        if number in records:
            fields.fail("id", number, "given once")
        records[number] = parse(fields)
    return records


def _parse_user(fields):
    gender = fields.texts[2]
    if gender not in GENDERS:
        fields.fail("gender", gender, f"one of {list(GENDERS)}")
    return User(fields.number(1, "age"), GENDERS[gender], fields.texts[3])


def _parse_item(fields):
    flags = fields.texts[_ITEM_FIELDS_BEFORE_GENRES:]
    for genre, flag in enumerate(flags):
        if flag not in ("0", "1"):
            fields.fail(f"flag of genre {genre}", flag, "0 or 1")
    date = fields.texts[2]  # 01-Jan-1995, or empty
    year = date.rpartition("-")[2]
    if date and not (year.isdecimal() and len(year) == 4):
        fields.fail("release date", date, "day-month-year, or empty")
    return Item(
        int(year) if date else NO_YEAR,
        tuple(genre for genre, flag in enumerate(flags) if flag == "1"),
    )


@dataclasses.dataclass(frozen=True)
class _Fields:
    """One line, and where it stands."""

    place: str  # path:line
    texts: list

    def number(self, position, what):
        """The whole number >= 0 of a field."""
        text = self.texts[position]
        if not text.isdecimal():
            self.fail(what, text, "a whole number")
        return int(text)

    def fail(self, what, value, wanted):
        """Raises what is wrong with this line."""
        raise ValueError(f"{self.place}: the {what} must be {wanted}, got {value!r}")


def _lines(folder, name, separator, num_fields):
    """Yields the _Fields of each line; an empty file is an error."""
    path = pathlib.Path(folder) / name
    number = 0
    with open(path, encoding=_ENCODING) as file:
        for number, line in enumerate(file, 1):
            fields = _Fields(f"{path}:{number}", line.rstrip("\n").split(separator))
            if len(fields.texts) != num_fields:
                raise ValueError(
                    f"{fields.place}: a line of {name} has {num_fields} fields with {separator!r} "
                    f"between them, got {len(fields.texts)} in {line[:60]!r}"
                )
            yield fields
    if number == 0:
        raise ValueError(f"{path} is empty")
