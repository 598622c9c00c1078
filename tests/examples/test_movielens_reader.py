# SPDX-License-Identifier: Apache-2.0
"""The files of MovieLens 100K: what is read of them, and what is said of a line that is wrong."""

import numpy as np
import pytest
from movielens_data import item_line, rating_line, read, user_line, write

from examples.movielens import download, reader

USERS = [user_line(1, 24, "M", "technician"), user_line(7, 53, "F", "other")]
ITEMS = [item_line(3, [0, 18], title="Cit\xe9 des enfants"), item_line(4, date="")]
RATINGS = [rating_line(7, 3, 5), rating_line(1, 4, 1)]


def test_all_that_the_files_say(tmp_path):
    users, items, ratings = read(write(tmp_path, USERS, ITEMS, data=RATINGS))
    assert users == {1: reader.User(24, 0, "technician"), 7: reader.User(53, 1, "other")}
    assert items == {3: reader.Item(1995, (0, 18)), 4: reader.Item(reader.NO_YEAR, ())}
    assert ratings.users.tolist() == [7, 1]
    assert ratings.items.tolist() == [3, 4]
    assert ratings.values.tolist() == [5.0, 1.0]
    assert ratings.values.dtype == np.float32


def test_what_a_package_carries_in_another_form(tmp_path):
    texts = download.converted(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t3\t5\t8\n1\t4\t1\t9\n",
        "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
        "1\t24\tM\ttechnician\t85711\n7\t53\tF\tother\t94043\n",
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
        "3\tA|B\t1995\tWar Action\n4\tunknown\tunkonwn\tunknown\n",
    )
    for name, text in zip(("u.data", "u.user", "u.item"), texts):
        (tmp_path / name).write_text(text)
    users, items, ratings = read(tmp_path)
    assert users == {1: reader.User(24, 0, "technician"), 7: reader.User(53, 1, "other")}
    assert items == {3: reader.Item(1995, (0, 1)), 4: reader.Item(reader.NO_YEAR, (2,))}
    assert ratings.users.tolist() == [7, 1] and ratings.values.tolist() == [5.0, 1.0]
    download.fetch(tmp_path)  # all files are there


MALFORMED = {
    "fields-of-a-rating": ("u.data", "1\t3\t5", r"4 fields with '\\t' between them, got 3 in"),
    "other-separator": ("u.data", "1::3::5::881250949", "has 4 fields .* got 1"),
    "empty-line": ("u.data", "", "has 4 fields .* got 1"),
    "user-no-number": ("u.data", rating_line("x", 3), "the user id must be a whole number, .*'x'"),
    "negative-item": ("u.data", rating_line(1, -3), "the item id must be a whole number, .*'-3'"),
    "unknown-user": ("u.data", rating_line(2, 3), "the user id must be one of u.user, got 2"),
    "unknown-item": ("u.data", rating_line(1, 5), "the item id must be one of u.item, got 5"),
    "rating-0": ("u.data", rating_line(1, 3, 0), "the rating must be a number from 1 to 5, got 0"),
    "rating-6": ("u.data", rating_line(1, 3, 6), "the rating must be a number from 1 to 5, got 6"),
    "half-a-rating": ("u.data", rating_line(1, 3, "3.5"), "the rating must be a whole .*'3.5'"),
    "timestamp": ("u.data", rating_line(1, 3, 3, "now"), "the timestamp must be .*'now'"),
    "fields-of-a-user": ("u.user", "2|24|M|writer", r"5 fields with '\|' between them, got 4"),
    "age": ("u.user", user_line(2, age="young"), "the age must be a whole number, got 'young'"),
    "gender": ("u.user", user_line(2, gender="?"), r"the gender must be one of \['M', 'F'\]"),
    "user-twice": ("u.user", user_line(1), "the id must be given once, got 1"),
    "fields-of-an-item": ("u.item", item_line(5) + "|0", "24 fields .* got 25"),
    "flag": ("u.item", item_line(5)[:-1] + "2", "flag of genre 18 must be 0 or 1, got '2'"),
    "date": ("u.item", item_line(5, date="1995-01"), "the release date must be .*got '1995-01'"),
    "item-twice": ("u.item", item_line(3), "the id must be given once, got 3"),
}


@pytest.mark.parametrize("name, line, message", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_is_named(tmp_path, name, line, message):
    write(tmp_path, USERS, ITEMS, data=RATINGS)
    with open(tmp_path / name, "a", encoding="latin-1") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=rf"{name}:3: .*{message}"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["u.data", "u.user", "u.item"])
def test_missing_and_empty_files(tmp_path, name):
    write(tmp_path, USERS, ITEMS, data=RATINGS)
    (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=f"{name} is empty"):
        read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        read(tmp_path)
