"""`python -m fiol.cli`: the command line."""

from fiol.cli import main

if __name__ == "__main__":
    main(prog_name="python -m fiol.cli")
