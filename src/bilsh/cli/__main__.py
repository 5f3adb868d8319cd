"""``python -m bilsh.cli``."""

from bilsh.cli.start import main

if __name__ == "__main__":
    main()
