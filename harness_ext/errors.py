"""The one error a user's mistake raises."""


class UsageError(ValueError):
    """A user's mistake: the message names what is wrong, the value, what is accepted, what to do.

    The command line prints the message alone, without a traceback.
    """


def overflow_error(layer: int, where: str) -> UsageError:
    """What to say of a state that is not finite after `layer`; `where` says in what."""
    return UsageError(
        f"the state after layer {layer} holds NaN or infinity ({where}); the model overflows in "
        "its dtype. Try dtype=float32 or bfloat16."
    )
