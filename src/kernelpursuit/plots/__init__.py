"""Pictures of pursuits, in scikit-learn's Display convention; needs matplotlib (the extra ``plot``).

A display holds the numbers and draws them as often as wanted: ``Display.from_estimator(...)`` computes and draws,
``display.plot(ax=...)`` draws again. Nothing here shows a window. ``METHOD_COLOURS`` has the colour that each
method has in all pictures of this project.
"""

from kernelpursuit.plots.curves import BoundDisplay, ResidualTraceDisplay
from kernelpursuit.plots.drawing import METHOD_COLOURS
from kernelpursuit.plots.moved import MovedCentersDisplay
from kernelpursuit.plots.path import PursuitPathDisplay
from kernelpursuit.plots.support import SupportDisplay

__all__ = [
    "METHOD_COLOURS",
    "BoundDisplay",
    "MovedCentersDisplay",
    "PursuitPathDisplay",
    "ResidualTraceDisplay",
    "SupportDisplay",
]
