"""From files to stores and back: what the command line does, as functions that any other front end can call."""
