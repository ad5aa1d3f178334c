"""`python -m fiol.cli`: the command line."""

from fiol.cli.process import run_command

if __name__ == "__main__":
    run_command("python -m fiol.cli")
