"""The rules of the maze once more, cell by cell in plain Python, to compare with."""

from collections import deque
from dataclasses import dataclass

import numpy as np

STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
ORDER = list(STEPS)


@dataclass
class SlowMaze:
    """A maze, in which the agent looks `ORDER[looks]`."""

    walls: np.ndarray
    place: tuple[int, int]
    looks: int
    goal: tuple[int, int]
    max_steps: int
    taken: int = 0

    @classmethod
    def of(cls, state, max_steps: int) -> "SlowMaze":
        place, goal = (tuple(np.asarray(cell).tolist()) for cell in (state.position, state.goal))
        return cls(np.asarray(state.walls), place, int(state.direction), goal, max_steps, int(state.step))

    def is_wall(self, cell: tuple[int, int]) -> bool:
        inside = all(0 <= x < size for x, size in zip(cell, self.walls.shape, strict=True))
        return not inside or bool(self.walls[cell])

    def cell(self, ahead: int, aside: int) -> tuple[int, int]:
        """The cell so far ahead and to the right of the agent."""
        y, x = STEPS[ORDER[self.looks]]
        return self.place[0] + ahead * y + aside * x, self.place[1] + ahead * x - aside * y

    def act(self, action: int) -> tuple[float, bool, bool]:
        """Reward, terminated, truncated."""
        if action == 0:
            self.looks = (self.looks - 1) % 4
        elif action == 1:
            self.looks = (self.looks + 1) % 4
        elif not self.is_wall(self.cell(1, 0)):
            self.place = self.cell(1, 0)
        self.taken += 1
        won = self.place == self.goal
        return 1 - 0.9 * self.taken / self.max_steps if won else 0.0, won, not won and self.taken >= self.max_steps

    def planes(self) -> np.ndarray:
        """Wall and goal in the view, and the compass, `[5, 5, 3]`."""
        planes = np.zeros((5, 5, 3))
        for row in range(5):
            for column in range(5):
                cell = self.cell(4 - row, column - 2)
                planes[row, column, :2] = self.is_wall(cell), cell == self.goal
        planes[(*{"up": (0, 2), "right": (2, 0), "down": (4, 2), "left": (2, 4)}[ORDER[self.looks]], 2)] = 1
        return planes

    def sees(self, observe: str) -> np.ndarray:
        if observe == "picture":
            return self.planes()
        one_hot = np.eye(4)[self.looks]
        if observe == "view":
            return np.concatenate([self.planes()[..., :2].reshape(-1), one_hot])
        free, goal = np.zeros(4), np.zeros(4)
        for i, (ahead, aside) in enumerate([(1, 0), (0, -1), (0, 1), (-1, 0)]):
            goal[i] = self.place == self.goal
            while not self.is_wall(cell := self.cell(ahead * int(free[i] + 1), aside * int(free[i] + 1))):
                free[i] += 1
                goal[i] = goal[i] or cell == self.goal
        return np.concatenate([free / len(self.walls), goal, one_hot])


def fewest_steps(state) -> int | None:
    """By breadth-first search over places and directions; None if there is no way."""
    first = SlowMaze.of(state, 1)
    queue, seen = deque([(first.place, first.looks, 0)]), {(first.place, first.looks)}
    while queue:
        place, looks, taken = queue.popleft()
        if place == first.goal:
            return taken
        for action in range(3):
            maze = SlowMaze(first.walls, place, looks, first.goal, 1)
            maze.act(action)
            if (maze.place, maze.looks) not in seen:
                seen.add((maze.place, maze.looks))
                queue.append((maze.place, maze.looks, taken + 1))
    return None
