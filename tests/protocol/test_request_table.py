"""A request table keeps a limited number of requests, in the order in which they were added."""

from __future__ import annotations

from mcpdesk.protocol.request_table import RequestTable


def test_the_oldest_request_of_a_full_table_is_removed() -> None:
    table = RequestTable[int, str](2)
    assert [table.add(number, f"of {number}") for number in (1, 2, 3)] == [None, None, "of 1"]
    assert 1 not in table and table.take(1) is None
    assert (table.get(3), table.take(3), table.take(3), len(table)) == ("of 3", "of 3", None, 1)


def test_a_request_with_the_same_key_replaces_the_earlier_one_and_is_the_newest() -> None:
    table = RequestTable[int, str](2)
    assert [table.add(1, "first"), table.add(2, "other"), table.add(1, "second")] == [None, None, "first"]
    assert table.add(3, "third") == "other"
    assert table.get(1) == "second"


def test_matching_requests_are_taken_in_order() -> None:
    table = RequestTable[tuple[int, str], str](9)
    for key in ((1, "a"), (2, "a"), (1, "b")):
        table.add(key, "".join(map(str, key)))
    taken = table.take_all(lambda key, _: key[0] == 1)
    assert taken == [((1, "a"), "1a"), ((1, "b"), "1b")]
    assert table.take_all(lambda _, value: value == "2a") == [((2, "a"), "2a")] and not len(table)
