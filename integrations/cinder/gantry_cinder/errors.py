# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Maps refusals of the array to the exceptions by which Cinder decides what becomes of a volume."""

import contextlib
import functools

from cinder import exception

from gantry_cinder.array import ArrayError, Problem

# What an administrator of OpenStack can do where the array's sentence is for others, by type of problem.
ADVICE = {
    "not-logged-in": "the driver's token: 'gantry token create cinder --role operator' makes one",
    "token-not-valid": "the driver's token: 'gantry token create cinder --role operator' makes one",
    "not-allowed": "the driver's token needs the role operator",
}
# The object is used by somebody, or protected.
BUSY = ("still-mapped", "snapshot-locked", "in-schedule")


class Refused(exception.VolumeBackendAPIException):
    """The array refused, or was not reached."""


def sentence(error):
    advice = ADVICE.get(error.type) if isinstance(error, Problem) else None
    return "%s (%s)" % (error, advice) if advice else str(error)


@contextlib.contextmanager
def translated(busy=None):
    """Raises what the array says as an exception of Cinder; 'busy' makes the one for an object in use."""
    try:
        yield
    except Problem as problem:
        if busy is not None and problem.is_of(*BUSY):
            raise busy(sentence(problem)) from problem
        raise Refused(data=sentence(problem)) from problem
    except ArrayError as error:
        raise Refused(data=str(error)) from error


def asks_array(busy=None):
    """Decorates a method of the driver so that it raises exceptions of Cinder only."""
    def decorate(method):
        @functools.wraps(method)
        def wrapper(*arguments, **options):
            with translated(busy):
                return method(*arguments, **options)
        return wrapper
    return decorate
