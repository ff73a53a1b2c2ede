"""Choice of the interceptor of a core."""

from __future__ import annotations

from mcpdesk.features import features_with
from mcpdesk.recorder.interceptor import InterceptedCore, Interceptor


def interceptor_for(core: InterceptedCore) -> Interceptor:
    """Return the interceptor of the first feature that has one. If no feature has one, return an interceptor
    that passes every message on.
    """
    interceptors = (feature.interceptor(core) for feature in features_with("interceptor"))
    return next(filter(None, interceptors), Interceptor())
