"""
The polytope
============

:class:`~kernelpursuit.PolytopeFacesRegressor` chooses atoms by a walk on a polytope. Here are four atoms in the
plane, so that all of it can be drawn. :doc:`/polytope` explains the picture.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

from kernelpursuit import DenseDictionary, Faces, pursue
from kernelpursuit.estimators.faces import walk_rule

TURN = np.deg2rad(-18)
ROTATION = np.array([[np.cos(TURN), -np.sin(TURN)], [np.sin(TURN), np.cos(TURN)]])
ATOMS = ROTATION @ np.array([[0.9, 0.25, -0.7, -1.0], [1.0, 0.95, 0.55, -0.1]])  # k₁ ... k₄ as columns
TARGET = ROTATION @ np.array([0.0, 1.35])
COLORS = ["#0072B2", "#009E73", "#CC79A7", "#8C8C8C"]
PAPER = {"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1.5}
WALK, SWAP = "#D55E00", "#555555"
TEXT = {"fontsize": 10.5, "ha": "center", "va": "center"}


def walk():
    """Legs of the walk, (from c, to the point where a face is met, to the next c), steps and the active atoms."""
    run = Faces(DenseDictionary(ATOMS), TARGET, intercept=False)
    path = pursue(run, walk_rule(run, 3, 1e-9))
    c, r, legs = np.zeros(2), TARGET, []
    for step, stage in zip(path.steps, run.stages[1:], strict=True):
        met = c + r / step.score
        A = ATOMS[:, stage.atoms] * np.sign(stage.coef[1:])
        inverse = np.linalg.pinv(A)
        after = inverse.T @ np.ones(len(stage.atoms))
        released = ", ".join(f"k{atom + 1}" for atom in step.released) or "nothing"
        print(f"takes k{step.atom + 1}, releases {released}, c = {after.round(3)}")
        legs.append((c, met, after))
        c, r = after, TARGET - A @ (inverse @ TARGET)
    return legs, path.steps, run.stages


def corners(columns):
    """Corners of {c : |kᵀc| <= 1} in order: facets of the hull of the signed atoms are corners of its polar."""
    hull = ConvexHull(np.hstack([columns, -columns]).T)
    points = -hull.equations[:, :2] / hull.equations[:, 2:]
    return points[np.argsort(np.arctan2(points[:, 1], points[:, 0]))]


def arrow(ax, start, end, color, **style):
    """Arrow from one point to another."""
    style = {"arrowstyle": "-|>", "mutation_scale": 13, "shrinkA": 0, "shrinkB": 0, "lw": 2} | style
    ax.annotate("", xy=end, xytext=start, arrowprops={"color": color, **style}, zorder=5)


def frame(ax, title, reach):
    """Equal axes through the origin, without a box."""
    ax.set_title(title, fontsize=12, pad=10)
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    ax.axvline(0, color="0.85", lw=0.8, zorder=0)
    ax.set(xlim=reach[0], ylim=reach[1], aspect="equal", xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)


def beside(start, end, gap):
    """The leg moved to its left by `gap`, so that the face under it stays visible."""
    normal = np.array([start[1] - end[1], end[0] - start[0]]) / np.linalg.norm(end - start)
    return start + gap * normal, end + gap * normal


def line(ax, normal, value, **style):
    """The line {c : normalᵀc = value}."""
    foot, along = value * normal / (normal @ normal), np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    ax.plot(*np.array([foot - 5 * along, foot + 5 * along]).T, **style)


def draw_faces(ax):
    """The polytope, its faces in the colours of the atoms, and where yᵀc is constant."""
    points = corners(ATOMS)
    ax.fill(*points.T, color="#EEF3F8", zorder=0)
    for value in (0.5, 1.0, 1.5):
        line(ax, TARGET, value, color="#DDBB88", lw=0.8, zorder=1)
    places = [(1.12, -0.06), (1.08, 0.72), (-0.58, 1.12), (-1.12, 0.32)]
    for i, (k, color, place) in enumerate(zip(ATOMS.T, COLORS, places, strict=True)):
        ends = np.array([p for p in points if abs(k @ p - 1) < 1e-9])
        line(ax, k, 1.0, color=color, lw=0.9, ls=(0, (1, 3)), zorder=2)
        ax.plot(*ends.T, color=color, lw=4, solid_capstyle="round", zorder=3)
        ax.plot(*-ends.T, color=color, lw=4, alpha=0.35, solid_capstyle="round", zorder=3)
        ax.text(*place, f"$k_{i + 1}^T c = 1$", color=color, **TEXT)


def draw_dual(ax, legs):
    """The polar polytope and the walk of c."""
    frame(ax, "Dual: the walk of c through the faces of  $|k_i^T c| \\leq 1$", ((-1.35, 1.5), (-0.72, 1.6)))
    draw_faces(ax)
    gaps = [0.0, 0.05, -0.05]
    curves = [0.28, 0.6, 0.0]
    for number, ((start, met, after), gap, curve) in enumerate(zip(legs, gaps, curves, strict=True), start=1):
        if np.linalg.norm(after - met) > 1e-9:
            bend = {"connectionstyle": f"arc3,rad={-curve}", "ls": (0, (4, 2)), "shrinkA": 3, "shrinkB": 6}
            arrow(ax, met, after, SWAP, lw=1.4, mutation_scale=12, **bend)
        start, end = beside(start, met, gap)
        arrow(ax, start, end, WALK, shrinkA=5 if number > 1 else 0, lw=2.4)
        middle = 0.5 * (start + end)
        ax.text(
            *middle,
            str(number),
            color="white",
            fontsize=9,
            fontweight="bold",
            ha="center",
            va="center",
            zorder=8,
            bbox={"boxstyle": "circle,pad=0.22", "fc": WALK, "ec": "white"},
        )
    marks = [np.zeros(2), *(after for _, _, after in legs)]
    offsets = [(-0.11, -0.1), (0.14, 0.0), (0.15, 0.02), (-0.02, 0.17)]
    for t, (point, offset) in enumerate(zip(marks, offsets, strict=True)):
        ax.plot(*point, "o", color="white", mec=WALK, mew=2, ms=8, zorder=7)
        name = f"$c_{t}$, the optimum" if t == len(legs) else f"$c_{t}$"
        ax.text(*(point + offset), name, color=WALK, fontsize=12, ha="center", va="center", zorder=8, bbox=PAPER)
    ax.text(0.86, 1.14, "$k_1$ is released", color=SWAP, bbox=PAPER, zorder=6, **TEXT)
    keys = [
        plt.Line2D([], [], color=WALK, lw=2.4, label="along the residual, until a face is met"),
        plt.Line2D([], [], color=SWAP, lw=1.4, ls=(0, (4, 2)), label="to the smallest c on the faces kept"),
        plt.Line2D([], [], color="#DDBB88", lw=1, label="$y^T c$ constant, larger towards the top"),
    ]
    ax.legend(handles=keys, loc="lower left", fontsize=9.5, framealpha=0.95, edgecolor="0.85")


def draw_primal(ax, stages):
    """The hull of the signed atoms and the target: basis pursuit asks by which facet the ray to y leaves it."""
    frame(ax, "Primal: where y leaves the hull of  $\\pm k_i$", ((-1.4, 1.5), (-1.1, 1.5)))
    signed = np.hstack([ATOMS, -ATOMS]).T
    ax.fill(*signed[ConvexHull(signed).vertices].T, color="#F6F1EA", ec="#C9B99F", lw=1.2, zorder=1)
    for i, (k, color) in enumerate(zip(ATOMS.T, COLORS, strict=True)):
        arrow(ax, (0, 0), k, color, lw=1.8)
        arrow(ax, (0, 0), -k, color, lw=1.2, alpha=0.4)
        ax.text(*(k + 0.13 * k / np.linalg.norm(k)), f"$k_{i + 1}$", color=color, **TEXT)
    final = stages[-1]
    ends = ATOMS[:, final.atoms] * np.sign(final.coef[1:])
    ax.plot(*ends, color=WALK, lw=3, solid_capstyle="round", zorder=4)
    arrow(ax, (0, 0), TARGET, "black", lw=1.8)
    ax.text(*(TARGET * 1.07), "$y$", color="black", **TEXT)
    crossing = TARGET / np.abs(final.coef[1:]).sum()
    ax.plot(*crossing, "o", color="white", mec=WALK, mew=2, ms=7, zorder=6)
    ax.annotate(
        "$y\\,/\\,\\|\\alpha\\|_1$",
        crossing,
        xytext=crossing + np.array([-0.5, 0.42]),
        color=WALK,
        arrowprops={"arrowstyle": "-", "color": WALK, "lw": 0.8},
        **TEXT,
    )


legs, _, stages = walk()
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.4), width_ratios=(1.2, 1), layout="constrained")
draw_dual(left, legs)
draw_primal(right, stages)
if len(sys.argv) > 1:  # python examples/plot_polytope.py docs/polytope.png
    figure.savefig(sys.argv[1], dpi=130, facecolor="white")
