"""The kitchens of JaxMARL's second version (Gessler et al. 2025, https://arxiv.org/abs/2503.17821)."""

from __future__ import annotations

__all__ = ["KITCHENS"]

KITCHENS: dict[str, tuple[str, str | None, bool]] = {
    "cramped_room": (
        """
        WWPWW
        OA AO
        W   W
        WBWXW
        """,
        "000",
        True,
    ),
    "asymm_advantages": (
        """
        WWWWWWWWW
        O WXWOW X
        W   P   W
        W A PA  W
        WWWBWBWWW
        """,
        "000",
        False,
    ),
    "coord_ring": (
        """
        WWWPW
        W A P
        BAW W
        O   W
        WOXWW
        """,
        "000",
        False,
    ),
    "forced_coord": (
        """
        WWWPW
        O WAP
        OAW W
        B W W
        WWWXW
        """,
        "000",
        False,
    ),
    "counter_circuit": (
        """
        WWWPPWWW
        W A    W
        B WWWW X
        W     AW
        WWWOOWWW
        """,
        "000",
        True,
    ),
    "cramped_room_v2": (
        """
        WWPWW
        0A A1
        W   R
        WBWXW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_center": (
        """
        WWWWWWWWW
        0 WXR01 X
        1   P   W
        W A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_right": (
        """
        WWWWWWWWW
        0 WXW01 X
        1   P   R
        W A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_left": (
        """
        WWWWWWWWW
        0 WXW01 X
        1   P   R
        R A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "two_rooms": (
        """
        WWWWWB10W
        W   W   R
        P A W A W
        W   W   X
        WWWWWWWWW
        """,
        None,
        False,
    ),
    "two_rooms_both": (
        """
        W01BWB10W
        W   W   R
        P A W A W
        W   W   X
        WWWWWWWWW
        """,
        None,
        False,
    ),
    "long_room": (
        """
        WWWWWWWWWWWWWWW
        B            AP
        0             X
        WWWWWWWWWWWWWWW
        """,
        "000",
        False,
    ),
    "fun_coordination": (
        """
        WWWWWWWWW
        0   X   2
        RA  P  AW
        1   B   3
        WWWWWWWWW
        """,
        "002,113",
        False,
    ),
    "more_fun_coordination": (
        """
        WWWWWWWWW
        W   X   W
        RA  P  A1
        0   P   2
        W   B   W
        WWWWWWWWW
        """,
        "011,022",
        False,
    ),
    "fun_symmetries": (
        """
        WWWWBWW
        2  W  0
        R APA X
        2  W  1
        WWWWBWW
        """,
        "000,111",
        False,
    ),
    "fun_symmetries_plates": (
        """
        WWWWWWW
        B  W  0
        R APA X
        B  W  1
        WWWWWWW
        """,
        "000,111",
        False,
    ),
    "fun_symmetries1": (
        """
        WWWWWBWW
        2  WW  0
        R AWPA X
        2  WW  1
        WWWWWBWW
        """,
        "000,111",
        False,
    ),
    "grounded_coord_simple": (
        """
        WW2WWWWW
        W  WB  0
        R ALPA X
        W  WB  1
        WW2WWWWW
        """,
        "000,111",
        False,
    ),
    "grounded_coord_ring": (
        """
        WWW2R2WWW
        W       W
        W WWLWW W
        2 0   B 2
        RAXAP X R
        2 1   B 2
        W WWLWW W
        W       W
        WWW2R2WWW
        """,
        "000,111",
        False,
    ),
    "test_time_simple": (
        """
        WW2WWWWW
        W  WB  0
        R AWPA X
        W  WB  1
        WW2WWWWW
        """,
        "000,111",
        False,
    ),
    "test_time_wide": (
        """
        WWXBWW
        0 A  0
        1    1
        WPWPWW
        3 A  3
        W    W
        WWRWWW
        """,
        "000,111",
        False,
    ),
    "demo_cook_simple": (
        """
        WWWWWR2W0WW
        0      W  B
        W     APA X
        1      W  B
        WWWWWR2W1WW
        """,
        "000,111",
        False,
    ),
    "demo_cook_wide": (
        """
        WWWWBXBWWWW
        WWW0 A 1WWW
        WWWWWPWWWWW
        W    A    W
        0  W3R3W  0
        W1WWWWWWW1W
        """,
        "000,111",
        False,
    ),
}
"""For each name the layout, its recipes (None for all), and whether the second cook is the first."""
