"""Every error and warning that bilsh raises of its own.

Each is also the built-in kind a caller would expect (ValueError, TypeError, OSError), so generic handlers
keep working.
"""


class BilshError(Exception):
    """Base of all errors of this library."""


class InvalidInputError(BilshError, ValueError):
    """An argument has the wrong value, shape or range; the message says what was expected and what to do."""


class InvalidTypeError(BilshError, TypeError):
    """An argument has the wrong type; the message says what was expected and what to do."""


class IncompatibleCodesError(BilshError, ValueError):
    """Codes of one encoder were given where codes of another are needed."""


class CorruptEncoderError(BilshError, ValueError):
    """An encoder file is damaged, cut short, or not an encoder file at all."""


class CorruptStore(BilshError, OSError):
    """A store's file is damaged or missing; the message names the file and, where known, the block."""


class StoreBusy(BilshError, OSError):
    """Another process holds the store's write lock."""


class MissingPackageError(BilshError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class DataNotFoundError(BilshError, FileNotFoundError):
    """A file or data set is not where it was looked for; the message lists the places and the remedies."""


class AssumptionWarning(UserWarning):
    """A published statement was evaluated where its assumptions do not hold."""


class EncoderAdvice(UserWarning):
    """The data at hand suggest another encoder; silence it by category if the choice is deliberate."""
