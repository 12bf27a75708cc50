"""`python -m jaxrl`: the `jaxrl` command."""

from jaxrl.cli import main

if __name__ == "__main__":
    main()
