"""The one error a user's mistake raises."""


class UsageError(ValueError):
    """A user's mistake: the message names what is wrong, the value, what is accepted, what to do.

    The command line prints the message alone, without a traceback.
    """
