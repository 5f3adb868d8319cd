"""``python -m bilsh.cli``."""

from bilsh.cli.program import main

if __name__ == "__main__":
    main()
