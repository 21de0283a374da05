"""What can go wrong, one class for each kind of failure."""


class Error(Exception):
    """Every failure of Xyntra."""


class UsageError(Error, ValueError):
    """The call is wrong: a name, a shape, a missing input."""


class BadModelError(Error):
    """The file is malformed or contradicts itself."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not done (yet)."""


class LimitError(Error):
    """Memory, time or size."""


class DeviceError(Error):
    """A device or driver failed."""


class InternalError(Error):
    """A bug of Xyntra's."""
