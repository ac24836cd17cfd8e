"""The report's page: sessions as tables and plots. Pure functions; none writes a file."""
