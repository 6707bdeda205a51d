"""The command line: its commands, the comparison that they run, the tables that it reads, the lines that it prints."""
