"""Numbers and sentences as people read them."""

from __future__ import annotations

import math


def number(value: float | None) -> str:
    """Four significant digits, never an exponent: people compare columns by eye."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:#.4g}"


def rounded(value: float, digits: int = 3) -> str:
    """A number to so many digits, and no power of ten below a million."""
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(value) < 1e6:
        return f"{value:.0f}"
    return text


def percent(fraction: float | None) -> str:
    """A change in percent, with its sign."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    digits = 1
    if abs(fraction) >= 10:
        digits = 0
    return f"{100 * fraction:+.{digits}f} %"
