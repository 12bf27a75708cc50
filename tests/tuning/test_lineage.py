"""How the members of a population are related, worked out by hand."""

import numpy as np

from jaxrl.tuning.lineage import ancestors, distant

# Members 0 to 2 descend from member 0, which had two children in the middle generation; 3 descends from itself.
PARENT = np.array([[0, 0, 0], [1, 0, 1], [2, 0, 1], [3, 3, 3]])


def test_a_line_of_parents() -> None:
    parent = np.array([[0, 0, 2], [1, 1, 1], [2, 1, 2]])
    assert ancestors(parent, 0) == [1, 2, 0]
    assert ancestors(parent, 1) == [1, 1, 1]


def test_the_most_distant_relatives_are_chosen_and_the_best_of_each_family() -> None:
    assert distant(PARENT, [2, 1, 0, 3], 1) == [2]
    assert distant(PARENT, [2, 1, 0, 3], 2) == [2, 3]  # two ancestors at first, though 1 and 0 are better than 3
    assert distant(PARENT, [1, 2, 0, 3], 3) == [1, 0, 3]  # 2 is a child of 1


def test_there_may_be_fewer_members_to_choose_from() -> None:
    assert distant(PARENT, [2, 1, 0, 3], 9) == [2, 1, 0, 3]
    assert distant(PARENT, [1], 2) == [1]
