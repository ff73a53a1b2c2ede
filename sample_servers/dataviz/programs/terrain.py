"""acquire-terrain: makes the heights of an artificial landscape by the diamond-square algorithm."""

from __future__ import annotations

import argparse
import random
from array import array
from pathlib import Path

from grids import Extent, Grid, write_grid


def heights(size: int, roughness: float, seed: int) -> list[list[float]]:
    """Return a square of heights. A side has `size` values, which must be a power of two plus one. The
    progress is printed as a percentage.
    """
    generator = random.Random(seed)
    field = [[0.0] * size for _ in range(size)]
    step = size - 1
    spread = 1.0
    done_rounds = 0
    rounds = step.bit_length()
    while step > 1:
        half = step // 2
        for y in range(half, size, step):
            for x in range(half, size, step):
                corners = (field[y + dy][x + dx] for dy in (-half, half) for dx in (-half, half))
                field[y][x] = sum(corners) / 4 + generator.uniform(-spread, spread)
        for y in range(0, size, half):
            for x in range((y + half) % step, size, step):
                positions = ((y - half, x), (y + half, x), (y, x - half), (y, x + half))
                neighbours = [field[b][a] for b, a in positions if 0 <= b < size and 0 <= a < size]
                field[y][x] = sum(neighbours) / len(neighbours) + generator.uniform(-spread, spread)
        step = half
        spread *= 2 ** (roughness - 1)
        done_rounds += 1
        print(f"\rraising land: {90 * done_rounds // rounds}%", end="", flush=True)
    return field


def main() -> None:
    """Make a landscape and write it as a grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--detail", type=int, default=8)
    parser.add_argument("--roughness", type=float, default=0.35)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    field = heights((1 << arguments.detail) + 1, arguments.roughness, arguments.seed)
    low, high = min(map(min, field)), max(map(max, field))
    span = (high - low) or 1.0
    metres = array("d", ((value - low) / span * 3400 - 900 for row in field for value in row))
    size = len(field)
    extent = Extent(f"Terrain {arguments.seed}", "m")
    grid = Grid(size, size, metres, extent)
    write_grid(Path(arguments.output), grid)
    print(f"\rraised land: 100%\n{grid.summary()}")


if __name__ == "__main__":
    main()
