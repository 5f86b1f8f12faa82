"""What all tests share: signals as a terminal would have them."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts background jobs deaf to Ctrl-C, and programs that tests start would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
