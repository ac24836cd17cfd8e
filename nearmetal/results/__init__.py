"""ReFrame's results database as plain data: sessions, cases and values. It is only read."""

from nearmetal.results.database import Database, default_database
from nearmetal.results.decode import parse_session
from nearmetal.results.directions import FILE as FILE_OF_DIRECTIONS
from nearmetal.results.directions import Directions, DirectionsError
from nearmetal.results.find import confirmations, load_session, newest, no_session, sessions
from nearmetal.results.session import (
    CONFIRMS,
    FACTS,
    OTHER_NODES,
    XFAIL,
    XPASS,
    BadSession,
    Case,
    Cause,
    Disturbed,
    NewestError,
    ResultsError,
    Session,
    Value,
    base_first,
    date,
    place,
    worst,
)

__all__ = [
    "CONFIRMS",
    "FACTS",
    "FILE_OF_DIRECTIONS",
    "OTHER_NODES",
    "XFAIL",
    "XPASS",
    "BadSession",
    "Case",
    "Cause",
    "Database",
    "Directions",
    "DirectionsError",
    "Disturbed",
    "NewestError",
    "ResultsError",
    "Session",
    "Value",
    "base_first",
    "confirmations",
    "date",
    "default_database",
    "load_session",
    "newest",
    "no_session",
    "parse_session",
    "place",
    "sessions",
    "worst",
]
