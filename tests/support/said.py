"""What a message says: its facts, whatever its sentence."""


def lacking(text: str, *facts: str) -> list[str]:
    """The facts (a file, a key, a value, a fix) that a message does not contain."""
    return [fact for fact in facts if fact not in text]
