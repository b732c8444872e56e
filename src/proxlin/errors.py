"""The exceptions of proxlin. Each is also the built-in error that callers would expect."""

_LONGEST = 1500  # characters: a sentence may quote what it was given, of any length


class ProxlinError(Exception):
    """Base of every error that proxlin raises on purpose."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


class InvalidInputError(ProxlinError, ValueError):
    """An invalid argument, setting or data set; the message says what to do about it."""


class InvalidTypeError(InvalidInputError, TypeError):
    """A value of the wrong type, where scikit-learn raises TypeError."""


class CombinationError(InvalidInputError):
    """Settings that are each valid but cannot be combined."""


class UnsupportedModuleError(ProxlinError, TypeError):
    """A torch module whose residual cannot be linearised."""


class MemoryBudgetError(ProxlinError, MemoryError):
    """Something that would not fit into the memory budget; the message says what to lower."""


class NonFiniteError(ProxlinError, ArithmeticError):
    """A computation that produced infinity or NaN where the mathematics has none."""


class DataError(ProxlinError, OSError):
    """A data file that is missing, damaged or cannot be stored."""


class CheckpointError(InvalidInputError):
    """A checkpoint that cannot be written or resumed from; the message says what to do."""


class CommunicationError(ProxlinError, ConnectionError):
    """A process of a distributed run that died, went silent or disagrees with the others."""


def said(cause: Exception) -> str:
    """What an exception is and the first line of what it says, without its full stop."""
    words = str(cause).strip().partition("\n")[0].rstrip(".")
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__
