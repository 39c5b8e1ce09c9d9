"""What the scripts of frameworks share: each case says 'case NAME: ok', or that it failed and why."""


def case(function):
    """Runs a function now. What it raises is told, and the next case goes on."""
    try:
        function()
        print(f"case {function.__name__}: ok", flush=True)
    except BaseException as error:  # frameworks raise what they like
        words = " ".join(repr(error).split())[:300]
        print(f"case {function.__name__}: failed: {words}", flush=True)
    return function
