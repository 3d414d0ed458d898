"""`python -m lineal`: the command line."""

from lineal.cli import main

if __name__ == "__main__":
    main()
