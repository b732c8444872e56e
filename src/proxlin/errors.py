"""The exceptions of proxlin. Each also is the built-in error that callers would expect."""

_LONGEST = 1500  # characters: a sentence may quote what it was given, of any length


class ProxlinError(Exception):
    """Base of every error that proxlin raises on purpose."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


class InvalidInputError(ProxlinError, ValueError):
    """An argument, a setting or a data set that cannot be used, and what to do about it."""


class InvalidTypeError(InvalidInputError, TypeError):
    """A value of a kind that cannot be used, where scikit-learn raises TypeError."""


class CombinationError(InvalidInputError):
    """Parts that are right one by one but do not go together."""


class UnsupportedModuleError(ProxlinError, TypeError):
    """A torch module whose residual cannot be linearised."""


class MemoryBudgetError(ProxlinError, MemoryError):
    """Something that would not fit the stated memory, and what to lower."""


class NonFiniteError(ProxlinError, ArithmeticError):
    """A computation that met infinity or NaN where the mathematics has none."""


class DataError(ProxlinError, OSError):
    """A data file that is missing, damaged or cannot be stored."""


class CheckpointError(InvalidInputError):
    """A checkpoint that cannot be kept or gone on from, and what to do about it."""


class CommunicationError(ProxlinError, ConnectionError):
    """Another process of a run over several that is gone, silent or of another mind."""
