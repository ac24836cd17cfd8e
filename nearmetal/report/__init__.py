"""The report's pages: sessions as tables and plots. Pure functions; page.py writes them to a file."""
