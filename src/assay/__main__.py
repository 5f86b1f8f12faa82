"""What the command `assay` begins with, and `python -m assay`: so little that Ctrl-C finds nothing to interrupt."""

import signal


def main() -> None:
    """Run the command line; while its parts are being loaded, Ctrl-C ends the process without a traceback."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # else it is ignored, as in the background of a script, and stays so
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assay.cli.main import main as run

    signal.signal(signal.SIGINT, heard)
    run()


if __name__ == "__main__":
    main()
