"""`python -m jetspark`: the command line, where the script itself is not on the path."""

from jetspark.cli.main import main

if __name__ == "__main__":
    main()
