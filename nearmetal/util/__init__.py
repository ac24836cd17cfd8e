"""What every part needs, and nothing of the domain: files, text, errors of commands."""
