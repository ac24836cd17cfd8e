"""The report's pages: sessions as tables and plots. Pure functions; ci/report.py writes them to a file."""
