"""`python -m headgate`, the same as the command `headgate`."""

from headgate.ui.cli import main

if __name__ == "__main__":
    main(prog_name="headgate")
