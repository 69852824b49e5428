"""`python -m hlorun`."""

from hlorun.cli import main

if __name__ == "__main__":
    main()
