"""What can go wrong. The text of each is the sentence that the program `tenon` would say."""


class TenonError(Exception):
    """Something was refused or failed; the classes below say which of the two."""


class InvalidArgumentError(TenonError, ValueError):
    """The input is wrong; the message says what is wrong and why."""


class UnsupportedError(TenonError, NotImplementedError):
    """The input is valid, but this pipeline or model cannot do it."""


class OutOfMemoryError(TenonError, MemoryError):
    """There is not enough memory."""


class NotFoundError(TenonError, FileNotFoundError):
    """A file, a name or an id does not exist."""

    def __str__(self):
        return str(self.args[0])


class FailedError(TenonError, RuntimeError):
    """It was tried and did not succeed."""


class InternalError(TenonError):
    """A defect of Tenon: please report it."""


class BusyError(TenonError):
    """As many calls as `max_calls` have not ended: try again later."""


# By the codes of <tenon/llm_c.h>.
_CODES = {1: InvalidArgumentError, 2: UnsupportedError, 4: OutOfMemoryError, 5: NotFoundError, 6: FailedError,
          7: InternalError, 8: BusyError}


def of_code(code: int) -> type[TenonError]:
    return _CODES.get(code, TenonError)
